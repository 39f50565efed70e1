package kuberay

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// dueJudge decides that a cluster must be ended, because neither its keeper nor Kubernetes will end it soon: its start cannot succeed, or
// somebody deleted its RayCluster. The keeper, which has no permission in Kubernetes, sees only that the head does not answer, and would wait until
// lifetime.queue. It changes nothing: whoever may change the cluster carries the end out (launcher.Status.Due). It looks at one cluster again and again.
type dueJudge struct {
	Namespace string
	ID        launcher.ID

	sawCluster bool      // there was a RayCluster
	badSince   time.Time // a reason that does not pass is seen since then
}

// End is the end that is due; nil: none is, or not yet. st is the keeper's state, nil before it has answered. keptHere: the keeper is a process of this client.
func (j *dueJudge) End(o *observe.Snapshot, st *runstate.State, keptHere bool) *launcher.End {
	if !o.Ours() || o.Job == nil && !keptHere {
		return nil
	}
	if end := j.deleted(o, st); end != nil {
		return end
	}
	return j.hopelessStart(o, st)
}

// Doubtful reports whether the last look saw a reason that makes an end due when it is seen for longer.
func (j *dueJudge) Doubtful() bool { return !j.badSince.IsZero() }

// ends reports whether the cluster's end has begun. The keeper's state may be an old one: a keeper that follows another may end the cluster before this client
// reaches it. Its pod then shows that the run has ended and that the record has the result.
func ends(o *observe.Snapshot, st *runstate.State) bool {
	return st != nil && (st.Phase == runstate.Draining || st.Exit != nil) ||
		o.Job != nil && (o.Job.DeletionTimestamp != nil || observe.JobEnded(o.Job)) || observe.HasResult(o)
}

// deleted is the end of a cluster whose RayCluster was there and is deleted, by somebody else than its keeper's end. nil: it is not.
func (j *dueJudge) deleted(o *observe.Snapshot, st *runstate.State) *launcher.End {
	if o.Cluster != nil && o.Cluster.DeletionTimestamp == nil {
		j.sawCluster = true
		return nil
	}
	if !j.sawCluster || st == nil || ends(o, st) {
		return nil
	}
	return ptr.To(clusterDeleted(j.Namespace, j.ID))
}

// hopelessStart is the end of a start that has been seen to fail for as long as that may pass by itself. nil: it may still pass.
func (j *dueJudge) hopelessStart(o *observe.Snapshot, st *runstate.State) *launcher.End {
	if st != nil && st.Phase == runstate.Ready || ends(o, st) {
		j.badSince = time.Time{}
		return nil
	}
	r := o.Reason()
	if refused := observe.MeshRefusal(o, st); refused.Code != "" {
		r = refused
	}
	patience, bad := observe.Hopeless[r.Code]
	committed := st != nil && st.Committed // by then there was a RayCluster
	if !bad || (r.Code == "CrashLoopBackOff" || r.Code == "OOMKilled") && o.Restarts() < observe.Crashes || r.Code == observe.ClusterMissing && !committed {
		j.badSince = time.Time{}
		return nil
	}
	if j.badSince.IsZero() {
		j.badSince = o.Now
	}
	switch {
	case o.Now.Sub(j.badSince) < patience:
		return nil
	case r.Code == observe.ClusterMissing:
		return ptr.To(clusterDeleted(j.Namespace, j.ID))
	}
	return &launcher.End{Cause: runstate.CauseStartFailed, Message: reasonSentence(r)}
}

// reasonSentence is a reason with its next step.
func reasonSentence(r runstate.Reason) string {
	if r.Hint == "" {
		return r.Message
	}
	return r.Message + ": " + r.Hint
}

// clusterDeleted is the end of a cluster whose RayCluster somebody else deleted. A keeper would wait for its head.
func clusterDeleted(namespace string, id launcher.ID) launcher.End {
	return launcher.End{Cause: runstate.CauseLost, Message: "its RayCluster was deleted: " + namespace + "/" + string(id)}
}
