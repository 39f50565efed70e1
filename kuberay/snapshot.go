package kuberay

import (
	"fmt"
	"slices"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// snapshot is all that Kubernetes shows of one cluster at one moment. What is said about it is a pure function of it.
type snapshot struct {
	now     time.Time
	job     *batchv1.Job // the keeper's
	record  *batchv1.Job
	cluster *rayv1.RayCluster
	gang    *unstructured.Unstructured // what holds the pods together; nil: nothing does
	pods    []*corev1.Pod              // Ray's, of the keeper and of the record
	events  []*corev1.Event
}

// allocated says whether anything is left of the cluster besides its record.
func (o *snapshot) allocated() bool {
	return o.job != nil || o.cluster != nil || o.gang != nil || len(o.rayPods())+len(o.role(roleKeeper)) > 0
}

// gone says whether the cluster has ended and its record, if there is one, is complete.
func (o *snapshot) gone() bool {
	return !o.allocated() && (o.record == nil || jobEnded(o.record))
}

// known says whether there is anything under the name.
func (o *snapshot) known() bool { return o.allocated() || o.record != nil }

func (o *snapshot) ours() bool {
	return o.job != nil || o.record != nil || o.cluster != nil && o.cluster.Labels[labelManagedBy] == managedBy
}

func (o *snapshot) rayPods() []*corev1.Pod {
	return o.filter(func(p *corev1.Pod) bool { return p.Labels[rayClusterLabel] != "" })
}

func (o *snapshot) role(role string) []*corev1.Pod {
	return o.filter(func(p *corev1.Pod) bool { return p.Labels[labelRole] == role })
}

func (o *snapshot) filter(keep func(*corev1.Pod) bool) (out []*corev1.Pod) {
	for _, p := range o.pods {
		if keep(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return out
}

func (o *snapshot) head() *corev1.Pod {
	for _, p := range o.rayPods() {
		if p.Labels[rayNodeTypeLabel] == headNodeType {
			return p
		}
	}
	return nil
}

// created is when the launch began, by the API server's clock.
func (o *snapshot) created() time.Time {
	switch {
	case o.job != nil:
		return o.job.CreationTimestamp.Time
	case o.cluster != nil:
		return o.cluster.CreationTimestamp.Time
	case o.record != nil:
		return o.record.CreationTimestamp.Time
	default:
		return time.Time{}
	}
}

// phase is where Kubernetes has brought the cluster, and why it is not further. What Ray says comes from the keeper.
func (o *snapshot) phase() (runstate.Phase, runstate.Reason, time.Time) {
	reason := o.reason()
	ready, wanted := o.counts()
	head := o.head()
	switch {
	case !o.allocated():
		return runstate.Gone, runstate.Reason{}, o.now
	case o.job == nil && o.record != nil, o.job != nil && (o.job.DeletionTimestamp != nil || jobEnded(o.job)), o.cluster != nil && o.cluster.DeletionTimestamp != nil:
		return runstate.Draining, runstate.Reason{Code: "Deleting", Message: fmt.Sprintf("pods left: %d", len(o.rayPods()))}, o.now
	case head == nil || head.Spec.NodeName == "":
		return runstate.Queued, reason, o.created()
	case o.cluster != nil && o.cluster.Status.State == rayv1.Ready && ready == wanted && reason.Code == "": //nolint:staticcheck // KubeRay 1.4 has nothing better
		return runstate.Ready, reason, o.readySince()
	case !running(head):
		return runstate.Provisioning, orReason(reason, "PullingOrStarting", "the head's pod is starting"), scheduledAt(head)
	default:
		return runstate.Starting, orReason(reason, "WaitingForPods", fmt.Sprintf("%d of %d pods are ready", ready, wanted)), scheduledAt(head)
	}
}

// readySince is when KubeRay saw all pods ready first. KubeRay before 1.2 does not say.
func (o *snapshot) readySince() time.Time {
	if at := o.cluster.Status.StateTransitionTimes[rayv1.Ready]; at != nil {
		return at.Time
	}
	return o.now
}

func orReason(r runstate.Reason, code, message string) runstate.Reason {
	if r.Code != "" {
		return r
	}
	return runstate.Reason{Code: code, Message: message}
}

// counts are Ray's pods that are ready, and those the cluster is to have.
func (o *snapshot) counts() (ready, wanted int) {
	for _, p := range o.rayPods() {
		if podReady(p) {
			ready++
		}
	}
	if o.cluster == nil {
		return ready, 0
	}
	wanted = 1
	for _, g := range o.cluster.Spec.WorkerGroupSpecs {
		if g.Replicas != nil {
			wanted += int(*g.Replicas) * int(max(1, g.NumOfHosts))
		}
	}
	return ready, wanted
}

// groups counts ready pods by group, for clusters without a keeper to ask.
func (o *snapshot) groups() (out []runstate.Group) {
	if o.cluster == nil {
		return nil
	}
	count := func(group string) (n int) {
		for _, p := range o.rayPods() {
			if p.Labels[rayGroupLabel] == group && podReady(p) {
				n++
			}
		}
		return n
	}
	out = append(out, runstate.Group{Name: "head", Ready: count(headGroup), Wanted: 1, GPUs: gpusOf(o.cluster.Spec.HeadGroupSpec.Template)})
	for _, g := range o.cluster.Spec.WorkerGroupSpecs {
		if g.Replicas != nil {
			out = append(out, runstate.Group{Name: g.GroupName, Ready: count(g.GroupName), Wanted: int(*g.Replicas), GPUs: gpusOf(g.Template)})
		}
	}
	return out
}

func gpusOf(t corev1.PodTemplateSpec) (n float64) {
	for _, c := range t.Spec.Containers {
		for name, q := range c.Resources.Limits {
			if name == "nvidia.com/gpu" || name == "amd.com/gpu" {
				n += q.AsApproximateFloat64()
			}
		}
	}
	return n
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
