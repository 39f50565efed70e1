// Package proc finds and ends the processes of one cluster in the process table, when no process that started them is left.
//
// A cluster's processes are those that have one of its markers (NAME=VALUE) in the environment they were started with, and
// what shares a session with them or descends from them: Ray's workers overwrite their own environment block when they
// set their title. Whatever carries the markers of another cluster is left alone, with all below it.
package proc

import (
	"context"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Process is one process of this machine.
type Process struct {
	PID, Parent int
	// Session is the session (Linux) or the process group (elsewhere).
	Session int
	// Start with PID names a process for good: clock ticks since boot; 0 where there is no /proc.
	Start   int64
	UID     int
	Zombie  bool
	command string //nolint:unused // with the environment; only where ps made the table (proc_other.go)
}

// Alive reports whether the process lives. start is its Process.Start, 0 if unknown.
func Alive(pid int, start int64) bool {
	if pid <= 0 {
		return false
	}
	p, ok := lookup(pid)
	return ok && !p.Zombie && (start == 0 || p.Start == 0 || p.Start == start)
}

// Marked lists the living processes of the cluster that has these markers, each NAME=VALUE.
func Marked(markers ...string) ([]Process, error) {
	table, err := Table()
	if err != nil {
		return nil, err
	}
	foreign, ours := map[int]bool{}, map[int]bool{}
	for _, p := range table {
		switch found := marksOf(p, markers); {
		case p.PID == os.Getpid() || p.UID != os.Getuid():
			foreign[p.PID] = true
		case slices.ContainsFunc(found, func(m string) bool { return slices.Contains(markers, m) }):
			ours[p.PID] = true
		case len(found) > 0:
			foreign[p.PID] = true
		}
	}
	spread(table, ours, foreign)
	return slices.DeleteFunc(table, func(p Process) bool { return !ours[p.PID] || p.Zombie }), nil
}

// marksOf lists the variables of the markers' names that the process was started with.
func marksOf(p Process, markers []string) (found []string) {
	for _, v := range environ(p) {
		for _, m := range markers {
			if name := m[:strings.Index(m, "=")+1]; strings.HasPrefix(v, name) {
				found = append(found, v)
				break
			}
		}
	}
	return found
}

// spread adds what shares a session with ours or descends from them, until nothing is added. A session counts only if its leader
// is ours or gone, so that a marked process in somebody's terminal does not take the terminal down.
func spread(table []Process, ours, foreign map[int]bool) {
	exists := map[int]bool{}
	for _, p := range table {
		exists[p.PID] = true
	}
	sessions := map[int]bool{}
	for changed := true; changed; {
		changed = false
		for _, p := range table {
			if s := p.Session; ours[p.PID] && s > 0 && !sessions[s] && (ours[s] || !exists[s]) {
				sessions[s], changed = true, true
			}
		}
		for _, p := range table {
			if !ours[p.PID] && !foreign[p.PID] && (ours[p.Parent] || sessions[p.Session]) {
				ours[p.PID], changed = true, true
			}
		}
	}
}

// settle is how long the kernel is given to take killed processes down before the table is read again.
const settle = 10 * time.Millisecond

// Kill sends SIGKILL to all processes of the markers until none is left, and returns what would not die before ctx ended.
func Kill(ctx context.Context, markers []string) ([]Process, error) {
	return until(ctx, markers, alive, func(p Process) {
		if Alive(p.PID, p.Start) { // the pid may have been given to somebody else meanwhile
			_ = syscall.Kill(p.PID, syscall.SIGKILL) // an error is ignored: the next look at the process table shows whether the process is gone
		}
	})
}

// Wait waits until no process of the markers is left, and returns what was left when ctx ended.
func Wait(ctx context.Context, markers []string) ([]Process, error) {
	return until(ctx, markers, dying, func(Process) {})
}

// alive is for a process that was killed. Until a processor runs it, it looks as it did, but nothing shows any more whose it was, if its parent or its session's leader
// had the marks and is gone.
func alive(p Process) bool { return Alive(p.PID, p.Start) }

// dying reports whether a process is being taken down: its memory is gone, and with it the marks, but its files may still be open.
func dying(p Process) bool { return Alive(p.PID, p.Start) && CommandLine(p) == "" }

// until calls each for the processes of the markers until none is left. stays reports whether one that was seen, and is none of them any more, is still to be waited for.
func until(ctx context.Context, markers []string, stays func(Process) bool, each func(Process)) ([]Process, error) {
	tick := time.NewTicker(settle)
	defer tick.Stop()
	for seen := []Process(nil); ; {
		left, err := Marked(markers...)
		if err != nil {
			return left, err
		}
		for _, p := range seen {
			if stays(p) && !slices.ContainsFunc(left, func(other Process) bool { return other.PID == p.PID }) {
				left = append(left, p)
			}
		}
		if len(left) == 0 {
			return left, nil
		}
		seen = left
		for _, p := range left {
			each(p)
		}
		select {
		case <-ctx.Done():
			return left, nil
		case <-tick.C:
		}
	}
}
