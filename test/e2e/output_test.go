package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
)

// into runs a command with its stdout in a file, and expects an exit code.
func (u *user) into(path string, code int, args ...string) (stderr string) {
	u.t.Helper()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		u.t.Fatal(err)
	}
	defer out.Close()
	c := u.command(u.t.Context(), args...)
	var words bytes.Buffer
	c.Stdout, c.Stderr = out, &words
	_ = c.Run()
	if got := c.ProcessState.ExitCode(); got != code {
		u.t.Errorf("rayctl %q: exit code %d, want %d\nstderr: %s", args, got, code, &words)
	}
	if n := strings.Count(words.String(), "output cannot be written"); n != 1 {
		u.t.Errorf("rayctl %q: the failure of stdout was told %d times: %s", args, n, &words)
	}
	return words.String()
}

// TestFullDisk writes the output of commands to full disks: the commands continue, and nothing is written twice.
func TestFullDisk(t *testing.T) {
	needs.Root(t)
	u := newUser(t)
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	var want strings.Builder
	for i := range 40_000 {
		fmt.Fprintln(&want, i)
	}
	u.write("wd/main.py", "import time\nfor i in range(40000):\n    print(i, flush=i % 1000 == 0)\n    i % 5000 or time.sleep(0.1)\nraise SystemExit(3)\n")
	path := filepath.Join(disk, "out")
	u.into(path, 3, "run", "--name", "full", "--working-dir", "wd", "--", "python", "main.py")
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < 60_000 || !strings.HasPrefix(want.String(), string(got)) {
		t.Errorf("%d bytes on the disk are no beginning of the output: ...%.300q", len(got), got[max(0, len(got)-300):])
	}
	if saved := u.want(0, "logs", "full").out; saved != want.String() {
		t.Errorf("the saved log has %d bytes, want %d", len(saved), want.Len())
	}
	const lost = runstate.CodeOutputLost
	u.into("/dev/full", lost, "logs", "full")
	u.into("/dev/full", lost, "logs", "full", "--tail", "2")
	u.into("/dev/full", 3, "logs", "full", "-f")
	u.into("/dev/full", 3, "run", "--name", "full", "--working-dir", "wd", "-o", "json", "--", "python", "main.py") // its record

	shared := sharedCluster(t)
	shared.into("/dev/full", lost, "submit", "shared", "--submission-id", "fulldisk", "--", "echo", "hello")
	shared.into("/dev/full", 4, "submit", "shared", "--", "sh", "-c", "echo hello; exit 4")
	shared.into("/dev/full", lost, "logs", "shared", "fulldisk")
	shared.into("/dev/full", lost, "logs", "shared", "fulldisk", "-f")
	shared.into("/dev/full", lost, "ls")
	shared.into("/dev/full", lost, "status", "shared", "-o", "json")
}
