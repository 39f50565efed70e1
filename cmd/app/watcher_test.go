package app_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// TestLostWorkers: a worker that is lost while somebody watches is reported once, also with --quiet.
func TestLostWorkers(t *testing.T) {
	at := func(seconds int) time.Time { return time.Date(2026, 1, 1, 0, 0, seconds, 0, time.UTC) }
	phase := func(seconds int, to runstate.Phase) runstate.Event {
		return runstate.Event{At: at(seconds), Attempt: 1, Kind: runstate.EventPhase, To: string(to)}
	}
	node := func(seconds, attempt int, name, to, message string) runstate.Event {
		return runstate.Event{At: at(seconds), Attempt: attempt, Kind: runstate.EventNode, Code: name, To: to, Message: message}
	}
	before := []runstate.Event{phase(1, runstate.Ready), node(2, 1, "w-0", runstate.NodeDead, "out of memory")}
	for _, c := range []struct {
		name   string
		phase  runstate.Phase
		events []runstate.Event
		want   []string
	}{
		{"nothing", runstate.Ready, nil, nil},
		{"the same loss in Ray's words", runstate.Ready, []runstate.Event{node(3, 1, "w-0", runstate.NodeDead, "missed heartbeats")}, nil},
		{"another worker, noted twice", runstate.Ready, []runstate.Event{
			node(3, 1, "w-1", runstate.NodeDead, "the supervisor of node w-1 was killed\nby signal 9."), node(4, 1, "w-1", runstate.NodeDead, "missed heartbeats"),
		}, []string{"x: node w-1 is lost: the supervisor of node w-1 was killed by signal 9; the driver continues"}},
		{"one that had come back", runstate.Ready, []runstate.Event{node(3, 1, "w-0", runstate.NodeAlive, ""), node(4, 1, "w-0", runstate.NodeDead, "")},
			[]string{"x: node w-0 is lost: its cause is not known; the driver continues"}},
		{"one that was started again at once", runstate.Ready, []runstate.Event{node(3, 1, "w-1", runstate.NodeAlive, "it was started again: its raylet ended with exit code -9")},
			[]string{"x: node w-1 was lost and started again: its raylet ended with exit code -9"}},
		{"one of the next attempt", runstate.Ready, []runstate.Event{node(3, 2, "w-0", runstate.NodeDead, "unplugged")},
			[]string{"x: node w-0 is lost: unplugged; the driver continues"}},
		{"with the driver", runstate.Draining, []runstate.Event{node(3, 1, "w-1", runstate.NodeDead, "unplugged"), phase(4, runstate.Draining)},
			[]string{"x: node w-1 is lost: unplugged"}},
		{"the head, which the phase shows", runstate.Lost, []runstate.Event{node(3, 1, "h-0", runstate.NodeDead, "unplugged"), phase(4, runstate.Lost)}, nil},
		{"at the end of the cluster", runstate.Draining, []runstate.Event{phase(3, runstate.Draining), node(4, 1, "w-1", runstate.NodeDead, "ended")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _, stderr := apptest.New()
			a.Quiet = true
			s := launcher.Status{
				Name: "x", Phase: runstate.Ready, Job: &runstate.Job{State: runstate.JobRunning}, Timeline: before,
				Head: runstate.Head{NodeID: "a"}, Nodes: []runstate.Node{{Name: "h-0", NodeID: "a"}, {Name: "w-0", NodeID: "b"}},
			}
			w := app.NewWatcher(a.UI)
			w.See(s)
			if stderr.Len() > 0 {
				t.Errorf("what was before is repeated: %q", stderr)
			}
			s.Phase, s.Timeline = c.phase, slices.Concat(before, c.events)
			w.See(s)
			w.See(s)
			if got := slices.Collect(strings.Lines(stderr.String())); !slices.Equal(got, lines(c.want)) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestRestartsAreTold: an attempt that is followed by another is reported once, with what job.restarts leaves; what was before somebody watched is not.
func TestRestartsAreTold(t *testing.T) {
	a, _, stderr := apptest.New()
	a.Quiet = true
	w, preempted := app.NewWatcher(a.UI), units.Count(2)
	w.Allow(spec.Restarts{Driver: 3, NodeFailure: -1, Preempted: &preempted})
	s := launcher.Status{Name: "x", Phase: runstate.Ready, Job: &runstate.Job{State: runstate.JobRunning}, Attempt: 1}
	see := func(cause, message string) {
		s.Attempts = append(slices.Clone(s.Attempts), runstate.Attempt{Attempt: s.Attempt, Cause: cause, Message: message})
		w.See(s) // the keeper has not begun the next one yet
		s.Attempt++
		w.See(s)
		w.See(s)
	}
	s.Attempt, s.Attempts = 2, []runstate.Attempt{{Attempt: 1, Cause: runstate.CauseDriverFailed}}
	w.See(s)
	see(runstate.CauseDriverFailed, "the driver exited with code 3")
	see(runstate.CauseLost, "the head's\nraylet ended.")
	see(runstate.CausePreempted, "")
	see(runstate.CauseIdle, "a cause without restarts")
	s.Attempts = append(slices.Clone(s.Attempts), runstate.Attempt{Attempt: s.Attempt, Cause: runstate.CauseDriverFailed}) // the end of the run
	w.See(s)
	if want := "x: attempt 2 failed: the driver exited with code 3; attempt 3 begins (restart 2 of 3, job.restarts.driver)\n" +
		"x: attempt 3 ended: the head's raylet ended; attempt 4 begins (restart 1, job.restarts.nodeFailure: unlimited)\n" +
		"x: attempt 4 ended: preempted; attempt 5 begins (restart 1 of 2, job.restarts.preempted)\n" +
		"x: attempt 5 ended: a cause without restarts; attempt 6 begins\n"; stderr.String() != want {
		t.Errorf("%q, want %q", stderr, want)
	}
}

func lines(texts []string) (out []string) {
	for _, text := range texts {
		out = append(out, text+"\n")
	}
	return out
}

// TestSubmitting: a Ready cluster submits its job until the job runs, and job.prepare before it.
func TestSubmitting(t *testing.T) {
	job := func(state, prepare runstate.JobState) *runstate.Job {
		if prepare == "" {
			return &runstate.Job{State: state}
		}
		return &runstate.Job{State: state, Prepare: &runstate.Prepare{State: prepare}}
	}
	for want, jobs := range map[string][]*runstate.Job{
		"Ready": {nil, job(runstate.JobRunning, ""), job(runstate.JobSucceeded, ""), job(runstate.JobWaiting, runstate.JobRunning), job(runstate.JobRunning, runstate.JobSucceeded)},
		"Ready: Ray prepares the job's environment, with its packages and files, and starts it":          {job(runstate.JobPending, "")},
		"Ready: Ray waits for a node with 2 CPUs free for the driver, or prepares the job's environment": {{State: runstate.JobPending, Reserves: "2 CPUs"}},
		"Ready: submitting the job":     {job(runstate.JobWaiting, ""), job(runstate.JobWaiting, runstate.JobSucceeded)},
		"Ready: submitting job.prepare": {job(runstate.JobWaiting, runstate.JobWaiting), job(runstate.JobWaiting, runstate.JobPending)},
	} {
		for _, j := range jobs {
			if got := app.PhaseLine(launcher.Status{Phase: runstate.Ready, Job: j}); got != want {
				t.Errorf("%+v: %q, want %q", j, got, want)
			}
		}
	}
}

// TestGroupRows: each group of a start has its row, unless there is only one.
func TestGroupRows(t *testing.T) {
	s := launcher.Status{
		Phase:  runstate.Starting,
		Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "trainer", Ready: 1, Wanted: 4}, {Name: "spare", Max: 4}, {Name: "r", Ready: 3, Wanted: 3, Min: 2, Max: 8}},
		Nodes: []runstate.Node{
			{Name: "trainer-0", Group: "trainer", State: runstate.NodeAlive, Message: "old"},
			{Name: "trainer-1", Group: "trainer", State: runstate.NodeStarting}, {Name: "trainer-2", Group: "trainer", State: runstate.NodeStarting, Message: "it pulls\nits image"},
		},
	}
	if got, want := app.GroupRows(s), []string{"  head      1 of 1 alive", "  trainer   1 of 4 alive: trainer-2: it pulls its image", "  r         2 of 2 alive"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for range 9 {
		s.Groups = append(s.Groups, runstate.Group{Name: "more", Wanted: 1})
	}
	if got := app.GroupRows(s); len(got) != 8 || got[7] != "  and 5 more groups" {
		t.Errorf("%q", got)
	}
	s.Phase = runstate.Ready
	if got := app.GroupRows(s); got != nil {
		t.Errorf("of a cluster that is ready: %q", got)
	}
	if got := app.GroupRows(launcher.Status{Phase: runstate.Starting, Groups: []runstate.Group{{Name: "w", Wanted: 2}}}); got != nil {
		t.Errorf("of one group: %q", got)
	}
}
