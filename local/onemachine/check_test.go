package onemachine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestPathWithoutBash: doctor and a dry run say it at once, before there is a Python or a Ray.
func TestPathWithoutBash(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "bin 'ü' $(x)")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	l := testLauncher(t)
	check := func() launcher.Check {
		checks := l.Check(t.Context(), nil)
		i := slices.IndexFunc(checks, func(c launcher.Check) bool { return c.Name == "bash" })
		if i < 0 {
			t.Fatalf("no such check: %+v", checks)
		}
		return checks[i]
	}
	const says = "PATH has none: install bash, or add its directory to PATH"
	if c := check(); c.OK || !strings.Contains(c.Detail, says) {
		t.Errorf("without: %+v", c)
	}
	s := &spec.ClusterSpec{Name: "x", Launcher: "local", Job: spec.Job{Entrypoint: "true"}}
	spec.Default(s)
	if err := l.Validate(t.Context(), s, launcher.Payload{DryRun: true}); launcher.ExitCode(err) != runstate.CodeConfig || !strings.Contains(err.Error(), says) {
		t.Errorf("a dry run: %v", err)
	}
	if err := os.Symlink(bash, filepath.Join(dir, "bash")); err != nil {
		t.Fatal(err)
	}
	if c := check(); !c.OK {
		t.Errorf("with: %+v", c)
	}
}

// TestRoomForEnvironment: a file system that is too small for the first environment is refused with what doctor says of it.
func TestRoomForEnvironment(t *testing.T) {
	err := firstEnvironment("/small 'ü'", 1<<20)
	if launcher.ExitCode(err) != runstate.CodeConfig || !strings.Contains(err.Error(), "no Python environment can be made: /small 'ü' has 0.0 GiB free, and one with Ray takes 0.3 GiB: free some space there, set XDG_CACHE_HOME") {
		t.Error(err)
	}
	if err := firstEnvironment("/", leastInstall); err != nil {
		t.Error(err)
	}
}
