package kuberay

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
)

// livingStatus is what is known of a cluster that is not gone: Kubernetes' view until Ray answers the keeper, the keeper's from then on.
func livingStatus(id launcher.ID, namespace string, o *observed, st *keeper.State, trouble string) launcher.Status {
	s := launcher.Status{Attempt: 1}
	phase, reason, since := o.phase()
	if st != nil {
		s = launcher.StatusOf(st)
	}
	switch {
	case st == nil || st.Phase == keeper.PhaseProvisioning || st.Phase == keeper.PhaseQueued || phase == launcher.Draining:
		s.Phase, s.Reason, s.Since = phase, reason, since
		if st != nil && phase == launcher.Ready {
			s.Phase = launcher.Starting // it is the keeper who says that all nodes are alive in Ray
		}
	case st.Phase == keeper.PhaseGone: // its result is there, its pods are not gone yet
		s.Phase, s.Reason = launcher.Draining, launcher.Reason{Code: st.Reason.Code, Message: st.Reason.Message}
	case st.Phase == keeper.PhaseReady && o.disruptedPods().Code != "":
		s.Reason = o.disruptedPods() // the keeper learns of it later, or is one of them
	case st.Phase == keeper.PhaseStarting && reason.Code != "":
		s.Reason = reason // it says more than "1 of 3 nodes are alive"
	}
	s.Exit = nil
	s.Groups = mergedGroups(s, o.groups())
	describe(&s, id, namespace, o)
	s.Unreachable = trouble
	return s
}

// mergedGroups counts what an autoscaled cluster has now: the keeper's groups are the gang, which is the least of it.
func mergedGroups(s launcher.Status, shown []launcher.GroupStatus) []launcher.GroupStatus {
	if len(s.Groups) == 0 {
		return shown
	}
	alive := map[string]int{}
	for _, n := range s.Nodes {
		if n.State == "ALIVE" {
			alive[n.Group]++
		}
	}
	out := slices.Clone(s.Groups)
	for _, g := range shown {
		i := slices.IndexFunc(out, func(k launcher.GroupStatus) bool { return k.Name == g.Name })
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
func describe(s *launcher.Status, id launcher.ID, namespace string, o *observed) {
	s.Name, s.Launcher, s.Ours = string(id), "kuberay", o.ours()
	s.Where, s.Created = namespace+"/"+string(id), o.created()
	if m := o.meta(); m != nil {
		s.Owner, s.Labels = m.GetAnnotations()[annotationOwner], userLabels(m.GetLabels())
		s.SpecHash = cmp.Or(s.SpecHash, m.GetAnnotations()[annotationHash])
	}
}

// meta is the object that carries labels and annotations of the cluster.
func (o *observed) meta() metav1.Object {
	switch {
	case o.job != nil:
		return o.job
	case o.cluster != nil:
		return o.cluster
	case o.record != nil:
		return o.record
	default:
		return nil
	}
}

// finalStatus is the last one. st is nil where nobody could keep a result.
func finalStatus(id launcher.ID, namespace string, o *observed, st *keeper.State) launcher.Status {
	if st == nil {
		st = vanished(id, o.now)
	}
	s := launcher.StatusOf(st)
	s.Phase = launcher.Gone
	describe(&s, id, namespace, o)
	return s
}

// vanished is the result of a cluster without one: somebody deleted it with its record.
func vanished(id launcher.ID, now time.Time) *keeper.State {
	message := "it was deleted, and left no record"
	return &keeper.State{
		Name: string(id), Launcher: "kuberay", Attempt: 1, Phase: keeper.PhaseGone, Since: now,
		Reason: keeper.Reason{Code: keeper.CauseLost, Message: message},
		Exit:   &keeper.Exit{Origin: keeper.OriginRayctl, Cause: keeper.CauseLost, Code: launcher.CodeLost, Message: message, Retryable: true},
	}
}
