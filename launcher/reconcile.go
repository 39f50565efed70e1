package launcher

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
)

// Scope bounds a Reconcile.
type Scope struct {
	// Beside is the cluster whose launch is the caller; "": none. A launcher then does only what costs a launch nothing, which may be nothing at all, and
	// leaves this cluster to the launch.
	Beside ID
	DryRun bool // only return what would be done
}

// Collected is one thing that Reconcile or gc removed or ended, or would.
type Collected struct {
	What string `json:"what"` // "run directory", "process", "environment"
	Name string `json:"name"`
	Why  string `json:"why"`
}

// besideLimit bounds what a launch does for others beside its own work.
const besideLimit = time.Minute

// ReconcileBeside is Reconcile for Launch of this cluster. What fails is tried again by the next launch, or by gc.
func ReconcileBeside(ctx context.Context, l Launcher, id ID, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, besideLimit)
	defer cancel()
	if done, err := l.Reconcile(ctx, Scope{Beside: id}); len(done) > 0 || err != nil {
		log.Debug("reconciled other clusters", "done", done, "error", err)
	}
}

// Tender is of a launcher that does something for a cluster while the client watches that launched it, such as deleting early what the substrate would delete
// some seconds later. The cluster does not depend on it.
type Tender interface {
	// WatchAndTend is Watch that does so.
	WatchAndTend(ctx context.Context, id ID) (<-chan Status, error)
}

// WatchAndReconcile is Watch, or WatchAndTend, for the client that launched the cluster: it also carries out Status.Due. Of a cluster that has ended that is
// done before its last status is sent: then Result is the recorded one. Commands that only read call Watch.
func WatchAndReconcile(ctx context.Context, l Launcher, id ID, log *slog.Logger) (<-chan Status, error) {
	watch := l.Watch
	if t, able := As[Tender](l); able {
		watch = t.WatchAndTend
	}
	statuses, err := watch(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make(chan Status)
	go func() {
		defer close(out)
		var busy atomic.Bool
		for s := range statuses {
			switch {
			case s.Due == nil:
			case s.Phase.Ended():
				ReconcileDue(ctx, l, id, *s.Due, log)
			case busy.CompareAndSwap(false, true): // else the next status has it again
				go func() {
					defer busy.Store(false)
					ReconcileDue(ctx, l, id, *s.Due, log)
				}()
			}
			select {
			case out <- s:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

// ReconcileDue carries out Status.Due of one cluster. A failure is retried a few times and then left to the next status, to the next launch or to gc.
func ReconcileDue(ctx context.Context, l Launcher, id ID, due End, log *slog.Logger) {
	for range dueTries {
		err := l.Terminate(ctx, id, due)
		if err == nil {
			return
		}
		log.Debug("what is due could not be done", "cluster", id, "due", due.Message, "error", err)
		if !sleep.For(ctx, duePause) {
			return
		}
	}
}

const (
	dueTries = 3
	duePause = 2 * time.Second
)
