package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// heldByQueue: a queue has not admitted the RayCluster, or the keeper's Job, or has suspended it.
func (o *Snapshot) heldByQueue() runstate.Reason {
	switch {
	case o.Cluster == nil || !ptr.Deref(o.Cluster.Spec.Suspend, false):
		return o.heldKeeper()
	case queueOf(o.Cluster) == "":
		return o.suspended(o.Cluster)
	case o.wasReady() || o.inQueue[o.Cluster.UID].TakenBack:
		return o.takenBack(o.Cluster)
	default:
		return o.notAdmitted("cluster", o.Cluster)
	}
}

// Codes of a RayCluster that waits, and that was there before: somebody has suspended it, and has to let it go on, or its queue has taken it back (preemption), and admits
// it again when there is room. One that waits in its queue for the first time has another.
const (
	reasonSuspended = "Suspended"
	heldAgain       = "TakenBackByQueue"
)

func (o *Snapshot) suspended(rc metav1.Object) runstate.Reason {
	return runstate.Reason{
		Code: reasonSuspended, Message: "the RayCluster is suspended (spec.suspend), by somebody or by a queueing system",
		Hint: fmt.Sprintf("`kubectl patch raycluster -n %s %s --type merge -p '{\"spec\":{\"suspend\":false}}'` lets it go on", rc.GetNamespace(), rc.GetName()),
	}
}

// takenBack: a queueing system suspends what it takes back, and admits what somebody else has suspended.
func (o *Snapshot) takenBack(rc metav1.Object) runstate.Reason {
	queue, by := admit.QueueOf(rc)
	r := runstate.Reason{Code: heldAgain, Message: fmt.Sprintf("%s has taken the cluster back to queue %s", by.Title, queue) + o.whyHeld(rc), Hint: o.askQueue(rc)}
	if o.inQueue[rc.GetUID()].Stopped {
		r.Code = reasonSuspended
	}
	return r
}

// heldAgainSince is when the pods were gone, or now.
func (o *Snapshot) heldAgainSince() time.Time {
	at, ready := o.Cluster.Status.StateTransitionTimes[rayv1.Suspended], o.Cluster.Status.StateTransitionTimes[rayv1.Ready]
	if at == nil || ready != nil && at.Before(ready) {
		return o.Now
	}
	return at.Time
}

// wasReady reports whether the RayCluster has been ready once; KubeRay before 1.2 does not record it.
func (o *Snapshot) wasReady() bool { return o.Cluster.Status.StateTransitionTimes[rayv1.Ready] != nil }

// heldKeeper: the queue has not admitted the keeper's Job, or the record's.
func (o *Snapshot) heldKeeper() runstate.Reason {
	switch {
	case o.Job != nil && InQueue(o.Job):
		return o.notAdmitted("keeper", o.Job)
	case o.Job != nil && o.Record != nil && InQueue(o.Record):
		return o.notAdmitted("record", o.Record)
	}
	return runstate.Reason{}
}

func queueOf(object metav1.Object) string {
	queue, _ := admit.QueueOf(object)
	return queue
}

func (o *Snapshot) notAdmitted(what string, object metav1.Object) runstate.Reason {
	queue, by := admit.QueueOf(object)
	if queue == "" {
		return runstate.Reason{Code: "HeldByQueue", Message: fmt.Sprintf("a queueing system has not admitted the %s yet", what)}
	}
	if o.inQueue[object.GetUID()].Never {
		return runstate.Reason{
			Code: quotaTooSmall, Message: fmt.Sprintf("%s never admits the %s to queue %s as the queue is now", by.Title, what, queue) + o.whyHeld(object),
			Hint: "ask for less (replicas, cpus, memory or gpus of the groups), or ask your administrators for a larger quota",
		}
	}
	return runstate.Reason{Code: "HeldByQueue", Message: fmt.Sprintf("%s has not admitted the %s to queue %s yet", by.Title, what, queue) + o.whyHeld(object), Hint: o.askQueue(object)}
}

// askQueue is the next step for what waits in a queue.
func (o *Snapshot) askQueue(object metav1.Object) string {
	_, by := admit.QueueOf(object)
	if o.inQueue[object.GetUID()].Unread {
		return "ask your administrators for this permission, which the guide's Role has for " + by.Title
	}
	return fmt.Sprintf("`kubectl describe %s -n %s` shows what it waits for", by.Requests.Resource, object.GetNamespace())
}

// whyHeld is what the admitter itself says of an object that waits in a queue, as the end of a sentence.
func (o *Snapshot) whyHeld(object metav1.Object) string {
	if why := o.inQueue[object.GetUID()].Why; why != "" {
		return ": " + why
	}
	return ""
}

// HeadHeld is the reason of an early head in a namespace whose RayClusters are held.
func HeadHeld(namespace string, by admit.Info) runstate.Reason {
	return runstate.Reason{
		Code: headHeld, Hint: "leave out head.early, or use a namespace without it (kuberay.namespace)",
		Message: fmt.Sprintf("the head cannot start before the workers: %s holds RayClusters in namespace %s until it admits them as a whole", cmp.Or(by.Title, "a queueing system"), namespace),
	}
}

// quota judges "exceeded quota": whether what the cluster cannot do without fits into it at all. How much is used just now is left out of the
// sentence: it changes, and is no news.
func (r RefusedPod) quota(m []string) (code, text, hint string) {
	name, requested, limited := m[1], amounts(m[2]), amounts(m[4])
	code, hint = QuotaFull, "it waits until the namespace has room; free some of the quota, or ask for more"
	var keys, sums []string
	for _, resourceName := range sorted(requested) {
		limit, known := limited[resourceName]
		sum := r.sum(resourceName, requested[resourceName])
		if !known || sum.Cmp(limit) <= 0 {
			continue
		}
		code = quotaTooSmall
		keys = append(keys, KeysFor(resourceName, strings.HasPrefix(resourceName, "limits.cpu"))...)
		sums = append(sums, resourceName+"="+sum.String())
	}
	text = fmt.Sprintf("exceeded quota: %s, requested: %s, limited: %s", name, m[2], m[4])
	if code == quotaTooSmall {
		text += fmt.Sprintf("; the cluster as a whole needs %s", strings.Join(sums, ","))
		hint = r.Answer(keys, "or ask for a larger quota "+name)
	}
	return code, text, hint
}

// sum is what the cluster as a whole takes of a quota's resource: all that is needed of the refused pod, and all other pods that the quota
// certainly counts as well, being of the same priority class.
func (r RefusedPod) sum(name string, requested resource.Quantity) resource.Quantity {
	sum := requested.DeepCopy()
	sum.Mul(int64(max(1, r.Needed)))
	for _, o := range r.others {
		if o.Pod.PriorityClassName == r.template.PriorityClassName {
			q := Usage(o.Pod, name)
			q.Mul(int64(o.N))
			sum.Add(q)
		}
	}
	return sum
}

// Usage is what a quota counts for a pod, from the pod's own spec alone.
func Usage(p corev1.PodSpec, name string) resource.Quantity {
	var sum resource.Quantity
	if name == "pods" || name == "count/pods" {
		return resource.MustParse("1")
	}
	plain, limits := strings.CutPrefix(name, "limits.")
	plain = strings.TrimPrefix(plain, "requests.")
	for _, c := range p.Containers {
		q, known := c.Resources.Requests[corev1.ResourceName(plain)]
		if limits || !known { // Kubernetes takes the limit for the request where there is none
			q = c.Resources.Limits[corev1.ResourceName(plain)]
		}
		sum.Add(q)
	}
	return sum
}

// amounts reads "a=1,b=2Gi".
func amounts(text string) map[string]resource.Quantity {
	out := map[string]resource.Quantity{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(part, "=")
		if q, err := resource.ParseQuantity(value); err == nil {
			out[strings.TrimSpace(name)] = q
		}
	}
	return out
}

func sorted(amounts map[string]resource.Quantity) (names []string) {
	for name := range amounts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
