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
	case st != nil && st.Phase == runstate.Queued && gangQueued(st) && phase != runstate.Draining: // the head of these workers is early, and there
		s.Reason = orReason(waitingWorkers(st, o.Reason()), st.Reason.Code, st.Reason.Message)
	case st == nil || s.Phase == runstate.Provisioning || st.Phase == runstate.Queued || phase == runstate.Draining:
		s.Phase, s.Reason, s.Since = phase, reason, since
		if st != nil && phase == runstate.Ready {
			s.Phase = runstate.Starting // only the keeper knows that all nodes are alive in Ray
		}
	case st.Phase == runstate.Gone: // its result is there, its pods are not gone yet
		s.Phase, s.Reason = runstate.Draining, runstate.Reason{Code: st.Reason.Code, Message: st.Reason.Message}
	case st.Phase == runstate.Ready && o.takenAway().Code != "":
		s.Reason = o.takenAway() // the keeper learns of it later, or is one of them
	case st.Phase == runstate.Starting && reason.Code != "":
		s.Reason = reason // it is more exact than "1 of 3 nodes are alive"
	}
	switch r := o.takenAway(); {
	case s.Phase == runstate.Draining:
	case r.Code == reasonSuspended:
		s.Phase, s.Reason = runstate.Suspended, r
	case r.Code == heldAgain && s.Phase != runstate.Queued: // the keeper learns of it later
		s.Phase, s.Reason, s.Since = runstate.Queued, r, o.heldAgainSince()
	}
	if r := MeshRefusal(o, st); r.Code != "" && s.Phase != runstate.Draining {
		s.Phase, s.Reason = runstate.Provisioning, r
	}
	s.Exit = nil
	s.Groups = mergedGroups(s, o.groups())
	s.Allocations = o.waits(s)
	if s.Phase == runstate.Ready {
		s.Allocations = append(s.Allocations, o.queuedNodes()...)
	}
	describe(&s, id, namespace, o)
	if st == nil { // its keeper has not said anything
		s.Uncommitted = o.uncommitted() && (s.Phase == runstate.Queued || s.Phase == runstate.Provisioning)
	}
	s.Unreachable = trouble
	if trouble == "" && st == nil && o.Job != nil && s.Phase == runstate.Ready {
		s.Unreachable = "the keeper does not answer, and only it knows whether all nodes are alive in Ray: this is what Kubernetes shows of the pods"
	}
	return s
}

// waits are the allocations, with Kubernetes' reason where they wait. Without a keeper's word there is the one that was asked for.
func (o *Snapshot) waits(s launcher.Status) []runstate.Allocation {
	all := s.Allocations
	if len(all) == 0 && o.Ours() && s.Phase == runstate.Queued {
		all = runstate.Asked(nil, s.Groups, o.Cluster != nil && objects.HasEarlyHead(o.Cluster), o.created())
	}
	for i := range all {
		if all[i].State == runstate.AllocationQueued {
			all[i].Message = cmp.Or(o.Reason().Message, s.Reason.Message)
		}
	}
	return all
}

// gangQueued reports whether the keeper waits for the workers of an early head.
func gangQueued(st *runstate.State) bool {
	return slices.ContainsFunc(st.Allocations, func(a runstate.Allocation) bool { return a.Purpose == runstate.PurposeGang && a.State == "queued" })
}

// waitingWorkers adds to the reason that Kubernetes gives what the keeper adds to its own (keeper/rayctl_keeper/run/gang/early.py).
func waitingWorkers(st *runstate.State, r runstate.Reason) runstate.Reason {
	if r.Code == "" {
		return r
	}
	switch j := st.Job; {
	case j.Prepares() && !j.Prepare.State.Terminal():
		r.Message = "job.prepare runs; " + r.Message
	case j != nil && j.State != runstate.JobWaiting:
		r.Message = "the driver runs; " + r.Message
	}
	return r
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

// uncommitted reports whether the launching client has not noted its commit in the record yet, which it makes last.
func (o *Snapshot) uncommitted() bool {
	return o.Ours() && o.Job != nil && (o.Record == nil || o.Record.Annotations[objects.AnnotationCommitted] == "")
}

// Owner is who launched the cluster, USER@HOST; false for one that rayctl did not make.
func (o *Snapshot) Owner() (string, bool) {
	m := o.meta()
	if m == nil || !o.Ours() {
		return "", false
	}
	return m.GetAnnotations()[objects.AnnotationOwner], true
}

// FinalStatus is the last one. st is the result; the keeper's last state, without an exit, or nil where nobody could keep a result.
func FinalStatus(id launcher.ID, namespace string, o *Snapshot, st *runstate.State) launcher.Status {
	if st == nil || st.Exit == nil {
		st = vanished(id, o.Now, st)
	}
	s := launcher.StatusOf(st)
	s.Phase = runstate.Gone
	describe(&s, id, namespace, o)
	return s
}

// vanished is the result of a cluster without one: somebody deleted it with its record. last is what the keeper said last; nil if nobody has heard it.
func vanished(id launcher.ID, now time.Time, last *runstate.State) *runstate.State {
	st := &runstate.State{Name: string(id), Launcher: "kuberay", Attempt: 1}
	if last != nil {
		*st = *last
		st.Timeline = slices.Clone(st.Timeline)
	}
	return runstate.Conclude(st, runstate.Verdict{Cause: runstate.CauseLost, Message: "it was deleted, and left no record", At: now})
}
