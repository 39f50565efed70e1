package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
)

// TestNearlyFullDisk: a launch with only so many KiB free on one of the user's file systems succeeds, or ends with one sentence that
// names the file system. Afterwards no cluster, process or directory is left. With each size the disk becomes full at another step; with the smallest one it is
// full whatever the machine does. `make conformance` has sizes for more steps.
func TestNearlyFullDisk(t *testing.T) {
	needs.Root(t)
	places := map[string][]int{"state": {4, 280, 600}, "tmp": {4, 17 << 10}, "cache": {4}}
	if conformance.Whole() {
		places = map[string][]int{
			"state": {4, 120, 220, 260, 280, 300, 320, 360, 420, 500, 600},
			"tmp":   {4, 1024, 15 << 10, 17 << 10},
			"cache": {4, 16, 64},
		}
	}
	for place, sizes := range places {
		for i, kib := range sizes {
			t.Run(fmt.Sprintf("%s with %d KiB", place, kib), func(t *testing.T) {
				if full := launchOn(t, place, kib); i == 0 && !full {
					t.Error("the disk was not full")
				}
			})
		}
	}
}

// launchOn reports whether the launch ended because the disk was full.
func launchOn(t *testing.T, place string, kib int) (wasFull bool) {
	u := newUser(t)
	full := mountSmall(t, kib)
	variables := map[string]string{"state": "XDG_STATE_HOME", "cache": "XDG_CACHE_HOME", "tmp": "TMPDIR"}
	own := t.TempDir()
	u.env = append(u.env, "XDG_STATE_HOME="+own+"/s", "XDG_CACHE_HOME="+own+"/c", variables[place]+"="+full)
	u.write("work/main.py", "print('fine')\n"+strings.Repeat("# not so small when it is packed: "+u.dir+"\n", 10))
	u.write("work/data.txt", strings.Repeat(incompressible(), 4))
	r := u.do("run", "--name", "full", "--workers", "1", "--cpus-per-worker", "1", "--working-dir", "work", "--", "python", "main.py")
	switch {
	case r.code == 0:
		contains(t, "the output", r.out, "fine")
	case r.code != 73 || !strings.Contains(r.err, full) || !strings.Contains(r.err, "no space "):
		t.Errorf("exit code %d, stdout %q, stderr %q", r.code, r.out, r.err)
	default:
		wasFull = true
		t.Logf("%s", r.err[strings.LastIndex(strings.TrimSpace(r.err), "\n")+1:])
	}
	if list := decode[[]struct{ Name, Phase string }](t, u.want(0, "ls", "-o", "json").out); len(list) > 0 {
		t.Errorf("clusters: %+v", list)
	}
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		if data, err := os.ReadFile(path); err == nil && bytes.Contains(data, []byte(variables[place]+"="+full)) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			t.Errorf("left: %s", bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
		}
	}
	if place == "tmp" {
		if left, err := filepath.Glob(full + "/r????????"); err != nil || len(left) > 0 {
			t.Errorf("left: %v, %v", left, err)
		}
	}
	return wasFull
}

// mountSmall makes a file system with so many KiB, at a path that is short enough for Ray's sockets.
func mountSmall(t *testing.T, kib int) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "f")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dk,mode=700", kib), "tmpfs", dir).CombinedOutput()
	needs.That(t, err == nil, "a file system of its own: %s", out)
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
		os.Remove(dir)
	})
	return dir
}

// incompressible is 32 KiB that do not compress.
func incompressible() string {
	text := make([]byte, 32<<10)
	state := uint32(1)
	for i := range text {
		state = state*1664525 + 1013904223
		text[i] = byte(state >> 24)
	}
	return string(text)
}

// TestFullDisk writes the output of commands to full disks: the commands continue, and nothing is written twice.
func TestFullDisk(t *testing.T) {
	needs.Root(t)
	u := newUser(t)
	disk := t.TempDir()
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=64k,mode=755", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", "-l", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
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
