package proc_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/needs"
)

// TestKilledWithItsFiles: a large process takes its time to die. Without its files a file system cannot be unmounted.
func TestKilledWithItsFiles(t *testing.T) {
	needs.Root(t)
	python := needs.Program(t, "python3", "python3")
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	mounted := true
	t.Cleanup(func() {
		if mounted {
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	cmd := exec.Command(python, "-c", "import sys, time\nf = open(sys.argv[1], 'w')\nx = bytearray(b'x') * (1 << 30)\nf.write('ready')\nf.flush()\ntime.sleep(600)", filepath.Join(dir, "open"))
	cmd.Env = append(os.Environ(), "RAYCTL_TEST=large")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	for ctx := within(t); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if text, _ := os.ReadFile(filepath.Join(dir, "open")); string(text) == "ready" {
			break
		}
	}
	if left, err := proc.Kill(within(t), []string{"RAYCTL_TEST=large"}); err != nil || len(left) > 0 {
		t.Fatal(left, err)
	}
	if err := syscall.Unmount(dir, 0); err != nil {
		t.Fatalf("a file is still open: %v", err)
	}
	mounted = false
}
