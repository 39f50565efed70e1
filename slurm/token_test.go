//go:build linux

package slurm_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
)

// TestWithoutToken: a launch with a Ray that has no tokens reports who can connect to it, before Slurm is asked for anything, which this machine does not have.
func TestWithoutToken(t *testing.T) {
	t.Setenv("PATH", "/usr/bin:/bin")
	for version, want := range map[string]string{"2.46.0": "Ray 2.46.0 has no tokens (2.52 and later have)", "2.60.0": ""} {
		l := slurm.New(slurm.Config{Dir: filepath.Join(t.TempDir(), "runs")})
		t.Cleanup(l.Close)
		s := &spec.ClusterSpec{Name: "open", Ray: spec.Ray{Version: version}, Head: spec.Head{NodeResources: smallNode()}}
		s.Job.Entrypoint = "true"
		var warned []string
		if _, err := l.Launch(t.Context(), s, launcher.Payload{Warn: func(text string) { warned = append(warned, text) }}); err == nil {
			t.Error("it was launched")
		}
		if got := strings.Join(warned, "\n"); (got == "") != (want == "") || !strings.HasPrefix(got, want) {
			t.Errorf("Ray %s: the launch warns %q, want %q", version, got, want)
		}
	}
}
