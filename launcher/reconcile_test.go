package launcher_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// watched is a launcher whose Watch sends what the test gives, and whose Terminate the test holds: which moment of an end a status meets cannot be chosen on
// a real one. A job that Slurm can never start has the first status again and again, a cluster whose keeper was killed the last one (see slurm, local).
type watched struct {
	launcher.Launcher
	statuses chan launcher.Status
	begun    chan launcher.End
	answer   chan error
}

func (w *watched) Watch(context.Context, launcher.ID) (<-chan launcher.Status, error) {
	return w.statuses, nil
}

func (w *watched) Terminate(_ context.Context, _ launcher.ID, end launcher.End) error {
	w.begun <- end
	return <-w.answer
}

// TestWatchAndReconcile: what is due of a living cluster is done once at a time and does not hold up its statuses; a cluster that has ended is concluded
// before its last status is sent.
func TestWatchAndReconcile(t *testing.T) {
	w := &watched{statuses: make(chan launcher.Status), begun: make(chan launcher.End), answer: make(chan error)}
	statuses, err := launcher.WatchAndReconcile(t.Context(), w, "c", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	never := launcher.Status{Phase: runstate.Queued, Due: &launcher.End{Cause: runstate.CauseStartFailed, Message: "it can never start"}}
	for range 3 {
		w.statuses <- never
		if s := <-statuses; s.Phase != runstate.Queued {
			t.Errorf("phase %s", s.Phase)
		}
	}
	if end := <-w.begun; end != *never.Due {
		t.Errorf("due: %+v", end)
	}
	w.answer <- nil

	lost := launcher.Status{Phase: runstate.Gone, Due: &launcher.End{Cause: runstate.CauseLost, Message: "the keeper was killed"}}
	w.statuses <- lost
	if end := <-w.begun; end != *lost.Due { // not once more what was due before
		t.Errorf("due: %+v", end)
	}
	select {
	case s := <-statuses:
		t.Errorf("the last status came before the result was written: %+v", s)
	default:
	}
	w.answer <- nil
	if s := <-statuses; s.Phase != runstate.Gone {
		t.Errorf("phase %s", s.Phase)
	}
	close(w.statuses)
	if s, open := <-statuses; open {
		t.Errorf("one more: %+v", s)
	}
}

// TestReconcileDueIsRepeated: a substrate that does not answer once is asked again.
func TestReconcileDueIsRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &watched{begun: make(chan launcher.End, 2), answer: make(chan error, 2)}
		w.answer <- errors.New("no route to host")
		w.answer <- nil
		launcher.ReconcileDue(t.Context(), w, "c", launcher.End{}, slog.New(slog.DiscardHandler))
		if len(w.begun) != 2 {
			t.Errorf("asked %d times", len(w.begun))
		}
	})
}
