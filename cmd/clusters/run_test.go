package clusters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestSecretContent: a value that no variable can hold is refused, and the error names the secret without its value.
func TestSecretContent(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"NUL": "hush\x00hush", "LATIN1": "hush\xe9"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		a, _, _ := apptest.New()
		_, err := readSecrets(a, &spec.ClusterSpec{Secrets: []spec.Secret{{Name: name, File: filepath.Join(dir, name)}}})
		if app.ExitCode(err) != runstate.CodeConfig || !strings.Contains(err.Error(), "secret "+name) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, _, _ := apptest.New()
	a.Getenv = func(string) string { return "hush\xe9" }
	if _, err := readSecrets(a, &spec.ClusterSpec{Secrets: []spec.Secret{{Name: "VARIABLE"}}}); app.ExitCode(err) != runstate.CodeConfig || strings.Contains(err.Error(), "hush") {
		t.Errorf("a variable: %v", err)
	}
}

// TestQuietFailure: -q prints the error of a run that rayctl ended, and nothing for a run that the driver ended.
func TestQuietFailure(t *testing.T) {
	for origin, want := range map[string]string{"rayctl": "rayctl: x ended: no Ray here (start failed, exit code 73)\n", "driver": ""} {
		a, _, stderr := apptest.New()
		a.Quiet = true
		a.Getenv = func(string) string { return t.TempDir() }
		rc := &launcher.Receipt{Name: "x", Exit: runstate.Exit{Cause: "start-failed", Code: 73, Origin: origin, Message: "no Ray here"}}
		err := finishRun(a, &runOptions{}, &launcher.Outcome{Receipt: rc})
		if app.ExitCode(err) != 73 || stderr.String() != want {
			t.Errorf("%s: %v, %q", origin, err, stderr)
		}
	}
}
