package local_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/stopped"
)

func TestOneClusterOfManyLaunches(t *testing.T) {
	pace.Parallel(t)
	state := t.TempDir()
	s := oneNode(t, "one", "")
	t.Cleanup(func() { terminate(t, at(t, state), "one") })
	var wg, all sync.WaitGroup
	var packed atomic.Int32
	all.Add(4)
	for range 4 {
		wg.Go(func() {
			l := at(t, state) // as other rayctls would
			all.Done()
			// Of the launch that makes the cluster, which takes until all have begun.
			pack := func(context.Context) (*launcher.Packages, error) {
				packed.Add(1)
				all.Wait()
				return &launcher.Packages{}, nil
			}
			if id, err := l.Launch(within(t), s, launcher.Payload{Packages: pack}); err != nil || id != "one" {
				t.Errorf("launch: %q, %v", id, err)
			}
		})
	}
	wg.Wait()
	if n := packed.Load(); n != 1 { // a keeper too many ends by itself, and is not seen below
		t.Errorf("%d launches made the cluster", n)
	}
	keepers := 0
	for _, p := range processes(t, state, "one") {
		if strings.Contains(proc.CommandLine(p), "keeper.pyz keeper") {
			keepers++
		}
	}
	if keepers != 1 {
		t.Errorf("%d keepers", keepers)
	}
	l := at(t, state)
	other := oneNode(t, "one", "")
	other.Head.CPUs = 7
	_, err := l.Launch(within(t), other, launcher.Payload{})
	wantError(t, err, runstate.CodeSpec, launcher.ErrConflict, "head.cpus: not set -> 7")
	if err := l.Forget(within(t), "one"); !errors.Is(err, launcher.ErrNotEnded) {
		t.Errorf("forget a living cluster: %v", err)
	}

	dirs := nodeDirs(t, state, "one")
	terminate(t, l, "one")
	nothingLeft(t, state, "one", dirs...)
	_, err = l.Launch(within(t), s, launcher.Payload{})
	wantError(t, err, runstate.CodeSpec, launcher.ErrEnded, "one")
	r, err := l.Result(within(t), "one")
	if err != nil || r.Exit.Cause != "down" || r.Exit.Code != runstate.CodeInterrupted {
		t.Errorf("result: %+v, %v", r, err)
	}
	if err := l.Forget(within(t), "one"); err != nil {
		t.Errorf("forget: %v", err)
	}
	_, err = l.Result(within(t), "one")
	wantError(t, err, runstate.CodeSpec, launcher.ErrNotFound, "one")
}

func TestNothingStaysWithoutCommit(t *testing.T) {
	pace.Parallel(t)
	boom := launcher.Fail(runstate.CodeSpec, nil, "", "cannot pack")
	for name, test := range map[string]struct {
		pack func(cancel func()) error
		code int
	}{
		"cancelled":      {func(cancel func()) error { cancel(); return context.Canceled }, runstate.CodeInterrupted},
		"packing failed": {func(func()) error { return boom }, runstate.CodeSpec},
	} {
		t.Run(name, func(t *testing.T) {
			pace.Parallel(t)
			state := t.TempDir()
			l := at(t, state)
			ctx, cancel := context.WithCancel(within(t))
			var dirs []string
			_, err := l.Launch(ctx, oneNode(t, "x", "true"), launcher.Payload{Packages: func(context.Context) (*launcher.Packages, error) {
				until(t, l, "x", func(launcher.Status) bool { dirs = nodeDirs(t, state, "x"); return len(dirs) > 0 })
				return nil, test.pack(cancel)
			}})
			wantError(t, err, test.code, nil, "")
			if len(dirs) == 0 {
				t.Error("no node had begun")
			}
			nothingLeft(t, state, "x", dirs...)
			if entries, err := os.ReadDir(filepath.Join(state, "clusters")); err != nil || len(entries) > 0 {
				t.Errorf("left: %v, %v", entries, err)
			}
		})
	}
}

// A node's supervisor and its forked guard are killed at the same moment, and nobody else looks after a worker: the keeper does so at the end.
func TestSupervisorAndGuardKilled(t *testing.T) {
	pace.Parallel(t)
	state := t.TempDir()
	l := at(t, state)
	s := oneNode(t, "pair", "")
	s.Workers = []spec.WorkerGroup{{Name: "h"}, {Name: "w"}}
	t.Cleanup(func() { terminate(t, l, "pair") })
	if _, err := l.Launch(within(t), s, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	until(t, l, "pair", func(st launcher.Status) bool { return st.Phase == runstate.Ready })
	var out bytes.Buffer // a worker's child in a session of its own, too
	code, err := l.Exec(within(t), "pair", launcher.ExecRequest{Stdout: &out, Stderr: &out, Command: []string{"python", "-c", `import ray, subprocess
ray.init()
@ray.remote(num_cpus=0, label_selector={"rayctl.io/group": "w"}, lifetime="detached", name="a")
class A:
    def start(self):
        return subprocess.Popen(["setsid", "sleep", "3600"]).pid
print("pid", ray.get(A.remote().start.remote()))`}})
	var pid int
	if _, scanErr := fmt.Sscanf(out.String()[max(0, strings.LastIndex(out.String(), "pid ")):], "pid %d", &pid); code != 0 || err != nil || scanErr != nil {
		t.Fatalf("exec: %d, %v, %v, %s", code, err, scanErr, out.String())
	}
	dir := reported(t, state, "pair", "w-0")
	var both []int
	for _, p := range processes(t, state, "pair") {
		if line := proc.CommandLine(p); strings.Contains(line, "/keeper.pyz node ") && strings.HasSuffix(line, " w-0") {
			both = append(both, p.PID)
		}
	}
	if len(both) != 2 {
		t.Fatalf("supervisor and guard: %v", both)
	}
	for _, end := range []func(int) error{stopped.Stop, func(pid int) error { return syscall.Kill(pid, syscall.SIGKILL) }} { // stopped first, so that neither sees the other's end
		for _, pid := range both {
			if err := end(pid); err != nil {
				t.Fatal(err)
			}
		}
	}
	for ctx := within(t); proc.Alive(pid, 0) || isThere(dir) || len(naming(t, dir)) > 0; time.Sleep(10 * time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("left: the worker's child %v, directory %v, processes %v", proc.Alive(pid, 0), isThere(dir), naming(t, dir))
		}
	}
	if st, err := l.List(within(t), launcher.Selector{}); err != nil || len(st) != 1 || st[0].Phase != runstate.Ready {
		t.Errorf("the head: %+v, %v", st, err)
	}
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// naming lists the command lines that name a directory.
func naming(t *testing.T, dir string) (lines []string) {
	t.Helper()
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range table {
		if line := proc.CommandLine(p); !p.Zombie && strings.Contains(line, dir) {
			lines = append(lines, line)
		}
	}
	return lines
}

// All who would clean up are killed at once: the keeper, the supervisors and their guards. What Ray started is found by its markers.
func TestEverybodyKilled(t *testing.T) {
	pace.Parallel(t)
	state := t.TempDir()
	l := at(t, state)
	neighbour, victim := oneNode(t, "neighbour", ""), oneNode(t, "victim", "")
	for _, s := range []string{"neighbour", "victim"} {
		t.Cleanup(func() { terminate(t, l, s) })
	}
	if _, err := l.Launch(within(t), neighbour, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Launch(within(t), victim, launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	ray := func() (n int) {
		for _, p := range processes(t, state, "victim") {
			if strings.Contains(proc.CommandLine(p), "gcs_server") {
				n++
			}
		}
		return n
	}
	until(t, l, "victim", func(launcher.Status) bool { return ray() > 0 })
	dirs := nodeDirs(t, state, "victim")
	for _, p := range processes(t, state, "victim") {
		if line := proc.CommandLine(p); strings.Contains(line, "keeper.pyz keeper") || strings.Contains(line, "keeper.pyz node") || strings.Contains(line, "keeper.pyz guard") {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	last := until(t, l, "victim", func(launcher.Status) bool { return false })
	if last.Phase != runstate.Gone || last.Exit == nil || last.Exit.Cause != "lost" || last.Exit.Code != runstate.CodeLost {
		t.Errorf("last status: %+v", last)
	}
	nothingLeft(t, state, "victim", dirs...)
	if len(processes(t, state, "neighbour")) == 0 {
		t.Error("the neighbour was hit too")
	}
}

func TestStuckKeeper(t *testing.T) {
	pace.Parallel(t)
	state := t.TempDir()
	l := at(t, state)
	t.Cleanup(func() { terminate(t, l, "stuck") })
	if _, err := l.Launch(within(t), oneNode(t, "stuck", ""), launcher.Payload{}); err != nil {
		t.Fatal(err)
	}
	var dirs []string
	until(t, l, "stuck", func(launcher.Status) bool { dirs = nodeDirs(t, state, "stuck"); return len(dirs) > 0 })
	stuck := 0
	for _, p := range processes(t, state, "stuck") {
		if strings.Contains(proc.CommandLine(p), "keeper.pyz keeper") {
			if err := stopped.Stop(p.PID); err != nil {
				t.Fatal(err)
			}
			stuck++
		}
	}
	if stuck != 1 || len(dirs) != 1 {
		t.Fatalf("%d keepers were stopped, of nodes in %q", stuck, dirs)
	}
	terminate(t, l, "stuck")
	nothingLeft(t, state, "stuck", dirs...)
	r, err := l.Result(within(t), "stuck")
	if err != nil || r.Exit.Cause != "down" {
		t.Errorf("result: %+v, %v", r, err)
	}
}
