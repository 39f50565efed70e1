//go:build linux

package slurm_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// queue: the status of a waiting cluster has the reason, and it ends without having started Ray when somebody cancels its job, when its time in the queue is over,
// and when it is ended.
func (b *bed) queue(t *testing.T) {
	l := b.launcher()
	release := b.occupy(t)
	defer release()
	type queued struct {
		name  string
		end   func(t *testing.T, id launcher.ID)
		cause string
		code  int
	}
	tests := []queued{
		{"q-cancelled", func(t *testing.T, id launcher.ID) { b.scancel(t, id) }, "interrupted", runstate.CodeInterrupted}, // seen at the next request, which the others do not wait for
		{"q-limit", func(t *testing.T, id launcher.ID) { tend(t, l, id) }, "queue", runstate.CodeQueueTimeout},
		{"q-down", func(t *testing.T, id launcher.ID) { b.down(t, l, id) }, "down", runstate.CodeInterrupted},
	}
	launch := func(t *testing.T, test queued, warn func(string)) launcher.ID {
		t.Helper()
		s := b.named(test.name, "echo never")
		if test.cause == "queue" {
			s.Lifetime.Queue = units.Limit(3 * time.Second)
		}
		id, err := l.Launch(t.Context(), s, launcher.Payload{Warn: warn})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	ending := map[string]bool{}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var notes []string // before anything is requested
			id := launch(t, test, func(text string) {
				notes = append(notes, text+strings.Join(b.allocated(t, launcher.ID(test.name)), ""))
			})
			if told := len(notes) == 1 && strings.HasPrefix(notes[0], "lifetime.queue is applied by the `run` or `up`") && strings.HasSuffix(notes[0], "timeLimit)"); told != (test.cause == "queue") || len(notes) > 1 {
				t.Errorf("notes: %q", notes)
			}
			waits := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Reason.Code != runstate.ReasonSubmitted })
			if waits.Phase != runstate.Queued || !slices.Contains([]string{"Resources", "Priority", "Pending"}, waits.Reason.Code) {
				t.Errorf("status while it waits: %s, %+v", waits.Phase, waits.Reason)
			}
			if test.cause == "down" { // which is not on its way to its end
				looks, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if difference := conformance.Agree(looks, l, id, func() []string { return b.allocated(t, id) }); difference != "" {
					t.Errorf("while it waits are shown: %s", difference)
				}
			}
			if a := allocation(waits, runstate.PurposeMain); a.State != runstate.AllocationQueued || a.Where != waits.Where || a.Message != waits.Reason.Message {
				t.Errorf("what waits: %+v", a)
			}
			ending[test.name] = true
			test.end(t, id)
		})
	}
	for _, test := range tests {
		t.Run(test.name+"/ended", func(t *testing.T) {
			id := launcher.ID(test.name)
			if !ending[test.name] { // the subtest above has failed before it had the cluster end
				test.end(t, launch(t, test, nil))
			}
			gone := watchUntil(t, l, id, isGone)
			if a := allocation(gone, runstate.PurposeMain); a.State != runstate.AllocationReleased || a.Granted != nil {
				t.Errorf("what was never granted: %+v", a)
			}
			if gone.Exit == nil || gone.Exit.Cause != test.cause || gone.Exit.Code != test.code {
				t.Errorf("exit: %+v", gone.Exit)
			}
			if left := b.allocated(t, id); len(left) > 0 {
				t.Errorf("left: %q", left)
			}
			if err := l.Forget(t.Context(), id); err != nil {
				t.Error(err)
			}
			b.nothingLeft(t, test.name)
		})
	}
}

// tend does what is due as soon as something is.
func tend(t *testing.T, l launcher.Launcher, id launcher.ID) {
	t.Helper()
	s := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Due != nil })
	launcher.ReconcileDue(t.Context(), l, id, *s.Due, slog.Default())
}
