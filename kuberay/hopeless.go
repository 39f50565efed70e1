package kuberay

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// endHopeless ends a cluster that cannot start, or whose RayCluster was deleted: the keeper sees only that the head does not answer, and would wait for
// lifetime.queue. The watching client sends it the end with the cause that Kubernetes shows.
func (w *watcher) endHopeless(ctx context.Context, o *observe.Snapshot) {
	if w.gaveUp.Load() || !o.Ours() || o.Job == nil && w.l.resident(w.id) == nil {
		return
	}
	end := w.deleted(o)
	if end == nil {
		end = w.hopelessStart(o)
	}
	if end == nil {
		return
	}
	w.gaveUp.Store(true)
	go func() {
		if err := w.l.ask(ctx, w.c, w.id, *end); err != nil && ctx.Err() == nil {
			w.l.log.Info("the keeper could not be asked to end the cluster", "cluster", w.id, "why", end.Message, "error", err)
			w.gaveUp.Store(false) // once more at the next look
		}
	}()
}

// deleted is the end of a cluster whose RayCluster was there and is deleted, by somebody else than its keeper's end. nil: it is not.
func (w *watcher) deleted(o *observe.Snapshot) *launcher.End {
	switch {
	case o.Cluster != nil && o.Cluster.DeletionTimestamp == nil:
		w.sawCluster = true
		return nil
	case !w.sawCluster || w.state == nil || w.state.Phase == runstate.Draining || w.state.Exit != nil, // it ends anyway
		o.Job != nil && (o.Job.DeletionTimestamp != nil || observe.JobEnded(o.Job)): // with its Job
		return nil
	}
	return ptr.To(clusterDeleted(w.c, w.id))
}

// hopelessStart is the end of a start that has been seen to fail for as long as that may pass by itself. nil: it may still pass.
func (w *watcher) hopelessStart(o *observe.Snapshot) *launcher.End {
	if w.state != nil && (w.state.Phase == runstate.Ready || w.state.Exit != nil) {
		return nil
	}
	r := o.Reason()
	if refused := observe.MeshRefusal(o, w.state); refused.Code != "" {
		r = refused
	}
	patience, bad := observe.Hopeless[r.Code]
	if !bad || (r.Code == "CrashLoopBackOff" || r.Code == "OOMKilled") && o.Restarts() < observe.Crashes || r.Code == observe.ClusterMissing && !w.committed() {
		w.badSince = time.Time{}
		return nil
	}
	if w.badSince.IsZero() {
		w.badSince = o.Now
	}
	switch {
	case o.Now.Sub(w.badSince) < patience:
		return nil
	case r.Code == observe.ClusterMissing:
		return ptr.To(clusterDeleted(w.c, w.id))
	}
	return &launcher.End{Cause: runstate.CauseStartFailed, Message: sentence(r)}
}

// sentence is a reason with its next step.
func sentence(r runstate.Reason) string {
	if r.Hint == "" {
		return r.Message
	}
	return r.Message + ": " + r.Hint
}

// clusterDeleted is the end of a cluster whose RayCluster somebody else deleted. A keeper would wait for its head.
func clusterDeleted(c *api.Client, id launcher.ID) launcher.End {
	return launcher.End{Cause: runstate.CauseLost, Message: "its RayCluster was deleted: " + c.Namespace + "/" + string(id)}
}

// committed: by then there was a RayCluster.
func (w *watcher) committed() bool { return w.state != nil && w.state.Committed }

// release deletes the Job of a keeper that has succeeded, which another container in its pod keeps from ending: Kubernetes would not.
func (w *watcher) release(ctx context.Context, o *observe.Snapshot) {
	if !o.Ours() || !o.Held() || o.Job.DeletionTimestamp != nil || !w.released.CompareAndSwap(false, true) {
		return
	}
	w.l.log.Info("its Job is deleted, because another container keeps the keeper's pod running", "cluster", w.id)
	go func(uid types.UID) {
		if err := w.c.DeleteJob(ctx, string(w.id), uid); err != nil && ctx.Err() == nil {
			w.l.log.Warn("the keeper's Job cannot be deleted", "cluster", w.id, "error", err)
			w.released.Store(false) // once more at the next look
		}
	}(o.Job.UID)
}

// hasten deletes the RayCluster of a run that has ended, when the record has driver's log and result: until then a keeper in another pod, after the
// loss of this one, would get them from the head again. Kubernetes does the same once the keeper's Job is
// complete, about two seconds later (1 s to see the container's end, 1 s until the Job controller acts). Who may not delete waits for that.
func (w *watcher) hasten(ctx context.Context, o *observe.Snapshot) {
	if w.hastened || o.Job == nil || o.Cluster == nil || !o.Ours() {
		return
	}
	w.hastened = true
	go func(uid types.UID) {
		if err := w.c.DeleteCluster(ctx, w.id, uid); err != nil {
			w.l.log.Debug("the RayCluster is left to Kubernetes", "cluster", w.id, "error", err)
		}
	}(o.Cluster.GetUID())
}
