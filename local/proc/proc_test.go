package proc_test

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/local/proc"
)

// start runs a shell that waits for its standard input to end, and its child, with these variables.
func start(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	// The inner shell drops its environment, as Ray's workers do when they set their title; "cat" waits for the pipe.
	cmd := exec.Command("/bin/sh", "-c", `env -i /bin/sh -c 'cat; :'; :`)
	cmd.Env = append(os.Environ(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }() // killed, or the pipe was closed
	t.Cleanup(func() { in.Close(); <-ended })
	return cmd
}

func pidsOf(ps []proc.Process) (out []int) {
	for _, p := range ps {
		out = append(out, p.PID)
	}
	return out
}

// whole waits until the shells have started each other.
func whole(t *testing.T, marker string) []proc.Process {
	t.Helper()
	for ctx := within(t); ctx.Err() == nil; {
		ps, err := proc.Marked(marker)
		if err != nil {
			t.Fatal(err)
		}
		if len(ps) >= 3 {
			return ps
		}
	}
	t.Fatal("the processes did not start")
	return nil
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestOnlyOurs(t *testing.T) {
	ours, theirs := start(t, "RAYCTL_TEST_MARK=one"), start(t, "RAYCTL_TEST_MARK=one more")
	mine, others := whole(t, "RAYCTL_TEST_MARK=one"), whole(t, "RAYCTL_TEST_MARK=one more")
	if !slices.Contains(pidsOf(mine), ours.Process.Pid) || slices.Contains(pidsOf(mine), theirs.Process.Pid) {
		t.Errorf("ours: %+v", mine)
	}
	if !proc.Alive(ours.Process.Pid, 0) || !proc.Alive(mine[0].PID, mine[0].Start) {
		t.Error("a living process is taken for dead")
	}
	if mine[0].Start != 0 && proc.Alive(mine[0].PID, mine[0].Start+1) {
		t.Error("another process of the same number is taken for it")
	}
	left, err := proc.Kill(within(t), []string{"RAYCTL_TEST_MARK=one"})
	if err != nil || len(left) > 0 {
		t.Errorf("kill: %+v, %v", left, err)
	}
	for _, p := range mine {
		if proc.Alive(p.PID, p.Start) {
			t.Errorf("%d lives", p.PID)
		}
	}
	for _, p := range others {
		if !proc.Alive(p.PID, p.Start) {
			t.Errorf("the neighbour's %d was killed", p.PID)
		}
	}
}

// A cluster that was launched from within another one is not part of it.
func TestNested(t *testing.T) {
	cmd := exec.Command("/bin/sh", "-c", `RAYCTL_TEST_MARK=inner /bin/sh -c 'cat; :'; :`)
	cmd.Env = append(os.Environ(), "RAYCTL_TEST_MARK=outer")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	var inner []proc.Process
	for ctx := within(t); len(inner) < 2 && ctx.Err() == nil; {
		if inner, err = proc.Marked("RAYCTL_TEST_MARK=inner"); err != nil {
			t.Fatal(err)
		}
	}
	outer, err := proc.Marked("RAYCTL_TEST_MARK=outer")
	if err != nil || len(inner) < 2 || !slices.Contains(pidsOf(outer), cmd.Process.Pid) {
		t.Fatalf("inner %v, outer %v, %v", inner, outer, err)
	}
	for _, p := range inner {
		if slices.Contains(pidsOf(outer), p.PID) {
			t.Errorf("%d belongs to both", p.PID)
		}
	}
}
