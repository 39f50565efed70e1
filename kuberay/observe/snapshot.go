// Package observe is what Kubernetes shows of a cluster, and what that means: a snapshot of its objects, kept up to date by list and watch, and
// pure functions of it that return in which phase the cluster is, why it is not further, and whether waiting is useless.
package observe

import (
	"fmt"
	"slices"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Snapshot is all that Kubernetes shows of one cluster at one moment. Phases, reasons and results are pure functions of it.
type Snapshot struct {
	Now     time.Time
	Job     *batchv1.Job // the keeper's
	Record  *batchv1.Job
	Cluster *rayv1.RayCluster
	gang    *unstructured.Unstructured // what holds the pods together; nil: nothing does
	Pods    []*corev1.Pod              // Ray's, of the keeper and of the record
	events  []*corev1.Event
	inQueue map[types.UID]admit.Held // why what is in a queue waits, by the UID of it, as the admitter itself says
}

// allocated reports whether anything is left of the cluster besides its record.
func (o *Snapshot) allocated() bool {
	return o.Job != nil || o.Cluster != nil || o.gang != nil || len(o.rayPods())+len(o.Role(objects.RoleKeeper)) > 0
}

// Gone reports whether the cluster has ended and its record, if there is one, is complete.
func (o *Snapshot) Gone() bool {
	return !o.allocated() && (o.Record == nil || o.RecordEnded())
}

// Known reports whether the cluster or its record exists.
func (o *Snapshot) Known() bool { return o.allocated() || o.Record != nil }

// Ours reports whether rayctl made the cluster.
func (o *Snapshot) Ours() bool {
	return o.Job != nil || o.Record != nil || o.Cluster != nil && o.Cluster.Labels[objects.LabelManagedBy] == objects.ManagedBy
}

func (o *Snapshot) rayPods() []*corev1.Pod {
	return o.filter(func(p *corev1.Pod) bool { return p.Labels[objects.RayClusterLabel] != "" })
}

// Role are the pods of a role, the keeper's or the record's, in the order of their making.
func (o *Snapshot) Role(role string) []*corev1.Pod {
	return o.filter(func(p *corev1.Pod) bool { return p.Labels[objects.LabelRole] == role })
}

func (o *Snapshot) filter(keep func(*corev1.Pod) bool) (out []*corev1.Pod) {
	for _, p := range o.Pods {
		if keep(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return out
}

func (o *Snapshot) head() *corev1.Pod {
	for _, p := range o.rayPods() {
		if p.Labels[objects.RayNodeTypeLabel] == objects.HeadNodeType {
			return p
		}
	}
	return nil
}

// created is when the launch began, by the API server's clock.
func (o *Snapshot) created() time.Time {
	switch {
	case o.Job != nil:
		return o.Job.CreationTimestamp.Time
	case o.Cluster != nil:
		return o.Cluster.CreationTimestamp.Time
	case o.Record != nil:
		return o.Record.CreationTimestamp.Time
	default:
		return time.Time{}
	}
}

// phase is the cluster's phase as Kubernetes shows it, and why it is not further. The state of Ray comes from the keeper.
func (o *Snapshot) phase() (runstate.Phase, runstate.Reason, time.Time) {
	reason := o.Reason()
	ready, wanted := o.counts()
	head, held := o.head(), o.held()
	switch {
	case !o.allocated():
		return runstate.Gone, runstate.Reason{}, o.Now
	case o.Job == nil && o.Record != nil, o.Job != nil && (o.Job.DeletionTimestamp != nil || JobEnded(o.Job)), o.Cluster != nil && o.Cluster.DeletionTimestamp != nil:
		return runstate.Draining, runstate.Reason{Code: "Deleting", Message: fmt.Sprintf("pods left: %d", len(o.rayPods()))}, o.Now
	case held != "":
		return runstate.Draining, runstate.Reason{Code: "SidecarRuns", Message: held, Hint: "`rayctl down " + o.Job.Name + "` deletes the rest"}, o.Now
	case reason.Code == reasonSuspended:
		return runstate.Suspended, reason, o.Now
	case reason.Code == heldAgain: // its pods may still be ending
		return runstate.Queued, reason, o.heldAgainSince()
	case head == nil || head.Spec.NodeName == "":
		return runstate.Queued, reason, o.created()
	case o.Cluster != nil && o.Cluster.Status.State == rayv1.Ready && ready == wanted && reason.Code == "": //nolint:staticcheck // KubeRay 1.4 has nothing better
		return runstate.Ready, reason, o.readySince()
	case !running(head):
		return runstate.Provisioning, orReason(reason, "PullingOrStarting", "the head's pod is starting"), scheduledAt(head)
	default:
		return runstate.Starting, orReason(reason, "WaitingForPods", fmt.Sprintf("%d of %d pods are ready", ready, wanted)), scheduledAt(head)
	}
}

// readySince is when KubeRay first saw all pods ready; zero with KubeRay before 1.2, which does not record it.
func (o *Snapshot) readySince() time.Time {
	if at := o.Cluster.Status.StateTransitionTimes[rayv1.Ready]; at != nil {
		return at.Time
	}
	return o.Now
}

func orReason(r runstate.Reason, code, message string) runstate.Reason {
	if r.Code != "" {
		return r
	}
	return runstate.Reason{Code: code, Message: message}
}

// counts are Ray's pods that are ready, and those the cluster is to have.
func (o *Snapshot) counts() (ready, wanted int) {
	for _, p := range o.rayPods() {
		if podReady(p) {
			ready++
		}
	}
	if o.Cluster == nil {
		return ready, 0
	}
	wanted = 1
	for _, g := range o.Cluster.Spec.WorkerGroupSpecs {
		if g.Replicas != nil {
			wanted += int(*g.Replicas) * int(max(1, g.NumOfHosts))
		}
	}
	return ready, wanted
}

// groups counts ready pods by group, with the sizes that an autoscaler may choose from.
func (o *Snapshot) groups() (out []runstate.Group) {
	if o.Cluster == nil {
		return nil
	}
	count := func(group string) (n int) {
		for _, p := range o.rayPods() {
			if p.Labels[objects.RayGroupLabel] == group && podReady(p) {
				n++
			}
		}
		return n
	}
	out = append(out, runstate.Group{Name: headOnly, Ready: count(objects.HeadGroup), Wanted: 1, GPUs: objects.GPUsOf(o.Cluster.Spec.HeadGroupSpec.Template)})
	for _, g := range o.Cluster.Spec.WorkerGroupSpecs {
		if g.Replicas == nil {
			continue
		}
		group := runstate.Group{Name: g.GroupName, Ready: count(g.GroupName), Wanted: int(*g.Replicas), GPUs: objects.GPUsOf(g.Template)}
		if o.autoscaled() {
			group.Min, group.Max = int(ptr.Deref(g.MinReplicas, 0)), int(ptr.Deref(g.MaxReplicas, 0))
		}
		out = append(out, group)
	}
	return out
}

// autoscaled reports whether Ray's autoscaler runs beside the head.
func (o *Snapshot) autoscaled() bool {
	return o.Cluster != nil && ptr.Deref(o.Cluster.Spec.EnableInTreeAutoscaling, false)
}

func podReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func running(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running == nil {
			return false
		}
	}
	return len(p.Status.ContainerStatuses) > 0
}

func scheduledAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return p.CreationTimestamp.Time
}

// JobEnded reports whether a Job was complete or failed.
func JobEnded(job *batchv1.Job) bool { return !EndOfJob(job).IsZero() }

// EndOfJob is when a Job was complete or failed.
func EndOfJob(job *batchv1.Job) time.Time {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}
