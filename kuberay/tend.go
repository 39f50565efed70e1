package kuberay

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// tended is what a client does for a cluster that it has launched, or is ending, while it watches it. Nothing depends on it: without such a
// client the record's pod keeps what the next keeper must know, and Kubernetes ends what is left a few seconds later. Only WatchAndTend, which
// launcher.WatchAndReconcile calls, and Terminate tend; Watch, List, Result and Dial change nothing. A nil tended does nothing, for those who only read.
type tended struct {
	c   *api.Client
	id  launcher.ID
	log *slog.Logger
	// sendAgain sends the keeper those of its packages that it misses.
	sendAgain func(ctx context.Context, k *keeper.Client, missing []string) error

	noted    map[string]string      // what is in the Secret, or on its way there
	newSince time.Time              // since when there is something to note; zero if there is nothing
	notes    chan map[string]string // for it
	recorded chan struct{}          // closed when the record has the result of a run that has ended
	hastened bool                   // the RayCluster of such a run is deleted
	released atomic.Bool            // and its Job, which a container of others kept
}

// newTended tends nothing before its methods are called. sendAgain sends the keeper packages that it misses, if this client has them.
func newTended(c *api.Client, id launcher.ID, log *slog.Logger, sendAgain func(ctx context.Context, k *keeper.Client, missing []string) error) *tended {
	return &tended{c: c, id: id, log: log, sendAgain: sendAgain, notes: make(chan map[string]string, 1), recorded: make(chan struct{})}
}

// Run writes what See has to note until ctx ends.
func (t *tended) Run(ctx context.Context) {
	if t != nil {
		t.takeNotes(ctx)
	}
}

// See takes what is seen of a cluster that is not gone. st is the keeper's state, nil before it has answered. Calls come one after the other, at least every
// few seconds.
func (t *tended) See(ctx context.Context, o *observe.Snapshot, st *runstate.State) {
	if t == nil {
		return
	}
	t.noteProgress(st)
	if t.hasResult(o, st) {
		t.hasten(ctx, o)
	}
	t.release(ctx, o)
}

// Hear takes a state from the keeper that k reaches. After the last one it returns when the keeper knows that the record has the result.
func (t *tended) Hear(ctx context.Context, k *keeper.Client, st *runstate.State) {
	switch {
	case t == nil:
	case st.Exit != nil:
		t.awaitRecord(ctx, k)
	case len(st.MissingPackages) > 0:
		if err := t.sendAgain(ctx, k, st.MissingPackages); err != nil {
			t.log.Warn("a package was lost with the keeper's pod, and cannot be sent again", "cluster", t.id, "error", err)
		}
	}
}

// Recorded is closed when the record has the result: See is to be called then.
func (t *tended) Recorded() <-chan struct{} {
	if t == nil {
		return nil
	}
	return t.recorded
}

// hasResult reports whether the record has the result, by the keeper's answer or by what Kubernetes shows.
func (t *tended) hasResult(o *observe.Snapshot, st *runstate.State) bool {
	select {
	case <-t.recorded:
		return true
	default:
		return observe.HasResultOf(o, st)
	}
}

const (
	recordPoll        = 50 * time.Millisecond
	longestRecordPoll = time.Second
	patience          = time.Minute // from the keeper's last state to knowing that the record has everything
)

// awaitRecord closes recorded when the record has the result. If that is never known, Kubernetes ends what is left by itself.
func (t *tended) awaitRecord(ctx context.Context, k *keeper.Client) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := recordPoll; ; pause = min(2*pause, longestRecordPoll) {
		err := k.Recorded(ctx)
		if err == nil {
			close(t.recorded)
			return
		}
		t.log.Debug("waiting for confirmation that the result was recorded", "cluster", t.id, "error", err)
		if !sleep.For(ctx, pause) {
			return
		}
	}
}

// release deletes the Job of a keeper that has succeeded, which another container in its pod keeps from ending: Kubernetes would not.
func (t *tended) release(ctx context.Context, o *observe.Snapshot) {
	if !o.Ours() || !o.HeldByContainer() || o.Job.DeletionTimestamp != nil || !t.released.CompareAndSwap(false, true) {
		return
	}
	t.log.Info("its Job is deleted, because another container keeps the keeper's pod running", "cluster", t.id)
	go func(uid types.UID) {
		if err := t.c.DeleteJob(ctx, string(t.id), uid); err != nil && ctx.Err() == nil {
			t.log.Warn("the keeper's Job cannot be deleted", "cluster", t.id, "error", err)
			t.released.Store(false) // once more at the next look
		}
	}(o.Job.UID)
}

// hasten deletes the RayCluster of a run that has ended, when the record has driver's log and result: until then a keeper in another pod, after the
// loss of this one, would get them from the head again. Kubernetes does the same once the keeper's Job is
// complete, about two seconds later (1 s to see the container's end, 1 s until the Job controller acts). Who may not delete waits for that.
func (t *tended) hasten(ctx context.Context, o *observe.Snapshot) {
	if t.hastened || o.Job == nil || o.Cluster == nil || !o.Ours() {
		return
	}
	t.hastened = true
	go func(uid types.UID) {
		if err := t.c.DeleteCluster(ctx, t.id, uid); err != nil {
			t.log.Debug("the RayCluster is left to Kubernetes", "cluster", t.id, "error", err)
		}
	}(o.Cluster.GetUID())
}
