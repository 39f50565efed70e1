package clusters

import (
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestQuietFailure: -q prints the error of a run that rayctl ended, and nothing for a run that the driver ended.
func TestQuietFailure(t *testing.T) {
	for origin, want := range map[string]string{"rayctl": "rayctl: x ended: no Ray here (start failed, exit code 73)\n", "driver": ""} {
		a, _, stderr := apptest.New()
		a.Quiet = true
		a.Getenv = func(string) string { return t.TempDir() }
		rc := &launcher.Receipt{Name: "x", Exit: runstate.Exit{Cause: "start-failed", Code: 73, Origin: origin, Message: "no Ray here"}}
		err := finishRun(t.Context(), a, &runOptions{}, &launcher.Outcome{Receipt: rc})
		if app.ExitCode(err) != 73 || stderr.String() != want {
			t.Errorf("%s: %v, %q", origin, err, stderr)
		}
	}
}
