package onemachine

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
	if how, _, err := c.run.Life(); err != nil || how == missing {
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
	cluster *cluster
	out     chan<- launcher.Status
	last    int64 // revision sent; 0: none
	begun   bool
}

func (w *watcher) run(ctx context.Context) {
	for ctx.Err() == nil {
		how, st, err := w.cluster.run.Life()
		switch {
		case err != nil:
			w.unreachable(ctx, st, err.Error())
		case how == ended:
			if w.nothingLeft(ctx) {
				w.send(ctx, w.cluster.status(ended, st))
				return
			}
			w.send(ctx, w.cluster.left(st))
		case how == missing:
			w.send(ctx, w.cluster.vanished())
			return
		case how == orphaned:
			if w.sendConcluded(ctx) { // killed long ago: some callers use only the first status
				return
			}
			w.send(ctx, due(w.cluster.status(orphaned, st), lost()))
			if w.nothingLeft(ctx) && w.sendConcluded(ctx) {
				return
			}
		case how == elsewhere:
			w.unreachable(ctx, st, w.cluster.notHere().Error())
		case how == beginning:
			if w.begin(ctx) {
				return
			}
		default:
			w.follow(ctx, st)
		}
	}
}

// begin waits for the keeper's first word. If its client died before there was a keeper, nothing will come: true.
func (w *watcher) begin(ctx context.Context) (last bool) {
	if !w.begun {
		w.send(ctx, w.cluster.status(beginning, nil))
		w.begun = true
	}
	if w.cluster.l.nobodyLaunches(w.cluster.run.Name) {
		if how, _, err := w.cluster.run.Life(); err == nil && how == beginning && !w.cluster.run.IsHere() {
			w.send(ctx, w.cluster.dead(nil))
			return true
		}
	}
	sleep.For(ctx, lookEvery)
	return false
}

// dead is the last status of a cluster of which nothing lives, and which has no result yet.
func (c *cluster) dead(st *runstate.State) launcher.Status {
	if !c.run.Files.Committed() {
		return due(c.vanished(), runstate.GivenUp())
	}
	return due(c.status(ended, c.concluded(st, lost())), lost())
}

// due is a status that asks for its end.
func due(s launcher.Status, v runstate.Verdict) launcher.Status {
	s.Due = &launcher.End{Cause: v.Cause, Message: v.Message}
	return s
}

// sendConcluded sends the last status of a cluster whose keeper was killed, unless it has a result meanwhile.
func (w *watcher) sendConcluded(ctx context.Context) bool {
	_, st, dead := w.cluster.l.leftBehind(w.cluster.run.Name)
	if dead {
		w.send(ctx, w.cluster.dead(st))
	}
	return dead
}

// left is the status of a cluster of which processes are left after the result.
func (c *cluster) left(st *runstate.State) launcher.Status {
	s := c.status(ended, st)
	s.Phase, s.Exit, s.Reason = runstate.Draining, nil, runstate.Reason{Code: "ProcessesLeft", Message: "it has ended, and processes of it still run"}
	return due(s, runstate.Verdict{Cause: st.Exit.Cause, Message: s.Reason.Message})
}

// follow sends states from the keeper's API until it does not answer.
func (w *watcher) follow(ctx context.Context, st *runstate.State) {
	w.sendState(ctx, st)
	client, err := w.cluster.client(st)
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
	if how, st, err := w.cluster.run.Life(); err == nil && how == living && st.Exit == nil && ctx.Err() == nil {
		w.unreachable(ctx, st, "the keeper does not answer")
	} else {
		sleep.For(ctx, lookEvery) // its state is final: it ends within milliseconds
	}
}

// sendState sends a state that is new, unless it is the last one: that is sent when nothing is left.
func (w *watcher) sendState(ctx context.Context, st *runstate.State) {
	if st.Revision > w.last && st.Exit == nil {
		w.last = st.Revision
		w.send(ctx, w.cluster.status(living, st))
	}
}

// unreachable sends a status with the error, and waits a moment before the next try.
func (w *watcher) unreachable(ctx context.Context, st *runstate.State, why string) {
	s := w.cluster.status(living, st)
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

// nothingLeft waits a while until the last process is gone.
func (w *watcher) nothingLeft(ctx context.Context) bool {
	soon, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	left, err := proc.Wait(soon, w.cluster.run.Markers())
	if err != nil {
		w.unreachable(ctx, nil, err.Error())
	}
	return err == nil && len(left) == 0 && ctx.Err() == nil
}
