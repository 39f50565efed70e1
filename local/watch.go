package local

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/local/proc"
)

// Watch follows the keeper's state: by its API, which answers at each change, and by its files while it does not answer.
func (l *Launcher) Watch(ctx context.Context, id launcher.ID) (<-chan launcher.Status, error) {
	c, err := l.open(id)
	if err != nil {
		return nil, err
	}
	if how, _, err := c.look(); err != nil || how == missing {
		if err == nil {
			err = launcher.NotFound(id)
		}
		return nil, err
	}
	out := make(chan launcher.Status)
	go func() {
		defer close(out)
		w := watcher{cluster: c, out: out}
		w.run(ctx)
	}()
	return out, nil
}

// watcher sends the states of one cluster.
type watcher struct {
	*cluster
	out   chan<- launcher.Status
	last  int64 // revision sent; 0: none
	begun bool
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		how, st, err := w.look()
		switch {
		case err != nil:
			w.unreachable(ctx, st, err.Error())
		case how == ended:
			if w.awaitNothingLeft(ctx) {
				w.send(ctx, w.status(ended, st))
				return
			}
		case how == missing:
			w.send(ctx, w.vanished())
			return
		case how == orphaned:
			w.send(ctx, w.status(orphaned, st))
			if err := w.settle(ctx, lost()); err != nil {
				w.unreachable(ctx, st, err.Error())
			}
		case how == elsewhere:
			w.unreachable(ctx, st, w.notHere().Error())
		case how == beginning:
			w.begin(ctx)
		default:
			w.follow(ctx, st)
		}
	}
}

// begin waits for the keeper's first word. If its client died before there was a keeper, nothing will come.
func (w *watcher) begin(ctx context.Context) {
	if !w.begun {
		w.send(ctx, w.status(beginning, nil))
		w.begun = true
	}
	if w.l.nobodyLaunches(w.name) {
		if how, _, err := w.look(); err == nil && how == beginning {
			_ = w.settle(ctx, lost()) // the next look tells
		}
	}
	sleep.For(ctx, lookEvery)
}

// follow sends states from the keeper's API until it does not answer.
func (w *watcher) follow(ctx context.Context, st *runstate.State) {
	w.sendState(ctx, st)
	client, err := w.client(st)
	if err != nil {
		sleep.For(ctx, lookEvery) // it has no address yet
		return
	}
	defer client.Close()
	for next, err := range client.Watch(ctx) {
		if err != nil {
			break
		}
		w.sendState(ctx, next)
	}
	if how, st, err := w.look(); err == nil && how == living && st.Exit == nil && ctx.Err() == nil {
		w.unreachable(ctx, st, "the keeper does not answer")
	} else {
		sleep.For(ctx, lookEvery) // it has said its last word: its end is a matter of milliseconds
	}
}

// sendState sends a state that is new, unless it is the last one: that is sent when nothing is left.
func (w *watcher) sendState(ctx context.Context, st *runstate.State) {
	if st.Revision > w.last && st.Exit == nil {
		w.last = st.Revision
		w.send(ctx, w.status(living, st))
	}
}

// unreachable says so and waits a moment before the next try.
func (w *watcher) unreachable(ctx context.Context, st *runstate.State, why string) {
	s := w.status(living, st)
	s.Unreachable = why
	w.send(ctx, s)
	sleep.For(ctx, time.Second)
}

func (w *watcher) send(ctx context.Context, s launcher.Status) {
	select {
	case w.out <- s:
	case <-ctx.Done():
	}
}

// awaitNothingLeft waits until the last process is gone; what hangs is killed.
func (w *watcher) awaitNothingLeft(ctx context.Context) bool {
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	left, err := proc.Wait(soon, w.markers())
	if err == nil && len(left) > 0 && ctx.Err() == nil {
		err = w.sweep(ctx)
	}
	if err != nil {
		w.unreachable(ctx, nil, err.Error())
	}
	return err == nil && ctx.Err() == nil
}
