package local_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rayctl/rayctl/local"
	"github.com/rayctl/rayctl/local/onemachine"
)

// TestCollectEnvironments: an environment of which a process runs stays, whoever started it.
func TestCollectEnvironments(t *testing.T) {
	cache := t.TempDir()
	l, err := local.New(onemachine.Config{StateDir: t.TempDir(), CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "envs", "ray-2.60.0-x-py3.12")
	marker, program := filepath.Join(dir, ".rayctl-complete"), filepath.Join(dir, "bin", "python")
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for _, err := range []error{
		os.MkdirAll(filepath.Dir(program), 0o700), os.Symlink(sleep, program), os.WriteFile(marker, []byte("{}"), 0o600), os.Chtimes(marker, old, old),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	busy := exec.Command(program, "1000")
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	if got, err := l.CollectEnvironments(t.Context(), false); err != nil || len(got) != 0 {
		t.Errorf("while it runs: %+v, %v", got, err)
	}
	if list, err := l.Environments(t.Context()); err != nil || len(list) != 1 || list[0].Dir != dir {
		t.Errorf("listed %+v, %v", list, err)
	}
	if err := busy.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = busy.Wait() // killed
	if got, err := l.CollectEnvironments(t.Context(), false); err != nil || len(got) != 1 || got[0].Name != dir {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("it is still there")
	}
}
