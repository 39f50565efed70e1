package kuberay

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// hopeless are reasons that do not pass by waiting, and how long they are looked at before the start is given up: registries and
// Secrets that come late are waited for.
var hopeless = map[string]time.Duration{
	"InvalidRayClusterSpec": 0, "InvalidRayClusterMetadata": 0, "InvalidImageName": 0, "ErrImageNeverPull": 0,
	"ErrImagePull": time.Minute, "ImagePullBackOff": time.Minute,
	"CreateContainerConfigError": time.Minute, "CreateContainerError": time.Minute, "RunContainerError": time.Minute,
	"CrashLoopBackOff": 0, "OOMKilled": 0,
	quotaTooSmall: 0, quotaUndefined: 0, limitRange: 0, podSecurity: 0, policyDenied: 0, podInvalid: 0, webhookDenied: time.Minute, notThere: time.Minute,
	clusterMissing: silence, // what is mirrored may be a bit old
}

// crashes is how often a container may end before its cluster is given up.
const crashes = 3

// endHopeless ends a cluster that cannot start, or whose RayCluster was deleted: the keeper sees only that the head does not answer, and would wait for
// lifetime.queue. Whoever watches tells it what Kubernetes says.
func (w *watcher) endHopeless(ctx context.Context, o *snapshot) {
	if w.gaveUp.Load() || !o.ours() || o.job == nil && w.l.resident(w.id) == nil {
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
			w.l.log.Info("the keeper could not be told that the cluster is to end", "cluster", w.id, "why", end.Message, "error", err)
			w.gaveUp.Store(false) // once more at the next look
		}
	}()
}

// deleted is the end of a cluster whose RayCluster was there and is deleted, by somebody else than its keeper's end. nil: it is not.
func (w *watcher) deleted(o *snapshot) *launcher.End {
	switch {
	case o.cluster != nil && o.cluster.DeletionTimestamp == nil:
		w.sawCluster = true
		return nil
	case !w.sawCluster || w.state == nil || w.state.Phase == runstate.Draining || w.state.Exit != nil, // it ends anyway
		o.job != nil && (o.job.DeletionTimestamp != nil || jobEnded(o.job)): // with its Job
		return nil
	}
	return ptr.To(clusterDeleted(w.c, w.id))
}

// hopelessStart is the end of a start that has been seen to fail for as long as that may pass by itself. nil: it may still pass.
func (w *watcher) hopelessStart(o *snapshot) *launcher.End {
	if w.state != nil && (w.state.Phase == runstate.Ready || w.state.Exit != nil) {
		return nil
	}
	r := o.reason()
	patience, bad := hopeless[r.Code]
	if !bad || (r.Code == "CrashLoopBackOff" || r.Code == "OOMKilled") && o.restarts() < crashes || r.Code == clusterMissing && !w.committed() {
		w.badSince = time.Time{}
		return nil
	}
	if w.badSince.IsZero() {
		w.badSince = o.now
	}
	switch {
	case o.now.Sub(w.badSince) < patience:
		return nil
	case r.Code == clusterMissing:
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
func clusterDeleted(c *client, id launcher.ID) launcher.End {
	return launcher.End{Cause: runstate.CauseLost, Message: "its RayCluster was deleted: " + c.namespace + "/" + string(id)}
}

// committed: by then there was a RayCluster.
func (w *watcher) committed() bool { return w.state != nil && w.state.Committed }

// hasten deletes the RayCluster of a run that has ended, when the record has driver's log and result: until then a keeper in another pod, after the
// loss of this one, would get them from the head again. Kubernetes does the same once the keeper's Job is
// complete, about two seconds later (1 s to see the container's end, 1 s until the Job controller acts). Who may not delete waits for that.
func (w *watcher) hasten(ctx context.Context, o *snapshot) {
	if w.hastened || w.state == nil || w.state.Exit == nil || o.job == nil || o.cluster == nil || !o.ours() {
		return
	}
	w.hastened = true
	go func(uid types.UID) {
		if err := w.c.deleteCluster(ctx, w.id, uid); err != nil {
			w.l.log.Debug("the RayCluster is left to Kubernetes", "cluster", w.id, "error", err)
		}
	}(o.cluster.GetUID())
}

// restarts is the most that a container of Ray's pods was started again.
func (o *snapshot) restarts() (most int32) {
	for _, p := range o.rayPods() {
		for _, c := range p.Status.ContainerStatuses {
			most = max(most, c.RestartCount)
		}
	}
	return most
}
