package observe

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// LivingStatus is what is known of a cluster that is not gone: Kubernetes' view until Ray answers the keeper, the keeper's from then on.
func LivingStatus(id launcher.ID, namespace string, o *Snapshot, st *runstate.State, trouble string) launcher.Status {
	s := launcher.Status{Attempt: 1}
	phase, reason, since := o.phase()
	if st != nil {
		s = launcher.StatusOf(st)
	}
	switch {
	case st == nil || st.Phase == runstate.Provisioning || st.Phase == runstate.Queued || phase == runstate.Draining:
		s.Phase, s.Reason, s.Since = phase, reason, since
		if st != nil && phase == runstate.Ready {
			s.Phase = runstate.Starting // it is the keeper who says that all nodes are alive in Ray
		}
	case st.Phase == runstate.Gone: // its result is there, its pods are not gone yet
		s.Phase, s.Reason = runstate.Draining, runstate.Reason{Code: st.Reason.Code, Message: st.Reason.Message}
	case st.Phase == runstate.Ready && o.disruptedPods().Code != "":
		s.Reason = o.disruptedPods() // the keeper learns of it later, or is one of them
	case st.Phase == runstate.Starting && reason.Code != "":
		s.Reason = reason // it says more than "1 of 3 nodes are alive"
	}
	s.Exit = nil
	s.Groups = mergedGroups(s, o.groups())
	describe(&s, id, namespace, o)
	s.Unreachable = trouble
	return s
}

// mergedGroups counts what an autoscaled cluster has now: the keeper's groups are the gang, which is the least of it.
func mergedGroups(s launcher.Status, shown []runstate.Group) []runstate.Group {
	if len(s.Groups) == 0 {
		return shown
	}
	alive := map[string]int{}
	for _, n := range s.Nodes {
		if n.State == runstate.NodeAlive {
			alive[n.Group]++
		}
	}
	out := slices.Clone(s.Groups)
	for _, g := range shown {
		i := slices.IndexFunc(out, func(k runstate.Group) bool { return k.Name == g.Name })
		if i < 0 {
			out = append(out, g)
			continue
		}
		out[i].Wanted = max(out[i].Wanted, g.Wanted)
		out[i].Ready = max(out[i].Ready, min(alive[g.Name], out[i].Wanted))
	}
	return out
}

// describe adds what the keeper does not know.
func describe(s *launcher.Status, id launcher.ID, namespace string, o *Snapshot) {
	s.Name, s.Launcher, s.Ours = string(id), "kuberay", o.Ours()
	s.Where, s.Created = namespace+"/"+string(id), o.created()
	if m := o.meta(); m != nil {
		s.Owner, s.Labels = m.GetAnnotations()[objects.AnnotationOwner], objects.UserLabels(m.GetLabels())
		s.SpecHash = cmp.Or(s.SpecHash, m.GetAnnotations()[objects.AnnotationHash])
	}
}

// meta is the object that carries labels and annotations of the cluster.
func (o *Snapshot) meta() metav1.Object {
	switch {
	case o.Job != nil:
		return o.Job
	case o.Cluster != nil:
		return o.Cluster
	case o.Record != nil:
		return o.Record
	default:
		return nil
	}
}

// FinalStatus is the last one. st is nil where nobody could keep a result.
func FinalStatus(id launcher.ID, namespace string, o *Snapshot, st *runstate.State) launcher.Status {
	if st == nil {
		st = vanished(id, o.Now)
	}
	s := launcher.StatusOf(st)
	s.Phase = runstate.Gone
	describe(&s, id, namespace, o)
	return s
}

// vanished is the result of a cluster without one: somebody deleted it with its record.
func vanished(id launcher.ID, now time.Time) *runstate.State {
	st := &runstate.State{Name: string(id), Launcher: "kuberay", Attempt: 1}
	return runstate.Conclude(st, runstate.Verdict{Cause: runstate.CauseLost, Message: "it was deleted, and left no record", At: now})
}
