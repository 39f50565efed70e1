package observe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/transport"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/tail"
)

// Silence is how long a controller may take before nothing of it means that it does not run.
const Silence = 10 * time.Second

// Reason is why the cluster is not further than it is, in one sentence, from the first source that has one. The cluster's own
// conditions are not enough: they have an image that does not exist, but not a crash.
func (o *Snapshot) Reason() runstate.Reason {
	return first(
		o.missingCluster, o.refusedSpec, o.RefusedPods, o.heldByQueue, o.headInGang, o.disruptedPods, o.stuckPods, o.waitingGang, o.unscheduledPods, o.idleOperator,
	)
}

// takenAway is why a cluster that was ready loses pods.
func (o *Snapshot) takenAway() runstate.Reason { return first(o.disruptedPods, o.heldByQueue) }

func first(sources ...func() runstate.Reason) runstate.Reason {
	for _, find := range sources {
		if r := find(); r.Code != "" {
			return r
		}
	}
	return runstate.Reason{}
}

// ClusterMissing is the reason of a keeper without a RayCluster.
const ClusterMissing = "RayClusterMissing"

// missingCluster: a launch creates the RayCluster soon after the keeper's Job, or once its queue has admitted that; where it is not there somebody has deleted it.
func (o *Snapshot) missingCluster() runstate.Reason {
	if o.Job == nil || o.Cluster != nil || o.heldKeeper().Code != "" || o.Now.Sub(o.Job.CreationTimestamp.Time) <= Silence {
		return runstate.Reason{}
	}
	return runstate.Reason{
		Code: ClusterMissing, Message: "the RayCluster does not exist: it was deleted, or its launch has not created it yet",
		Hint: "`rayctl down " + o.Job.Name + "` ends what is left",
	}
}

// refusedSpec returns why the operator rejected the RayCluster; only an event has it.
func (o *Snapshot) refusedSpec() runstate.Reason {
	if o.Cluster == nil {
		return runstate.Reason{}
	}
	if e := o.event("RayCluster", o.Cluster.UID, "InvalidRayClusterSpec", "InvalidRayClusterMetadata"); e != nil {
		return runstate.Reason{Code: e.Reason, Message: "the KubeRay operator refuses the RayCluster: " + e.Message, Hint: "correct the cluster file"}
	}
	return runstate.Reason{}
}

// RefusedPods is why the operator may not make the pods: quota, admission, its own permissions.
func (o *Snapshot) RefusedPods() runstate.Reason {
	if o.Cluster == nil {
		return runstate.Reason{}
	}
	for _, c := range o.Cluster.Status.Conditions {
		if c.Type == "ReplicaFailure" && c.Status == metav1.ConditionTrue {
			return o.refusedRay(c.Reason, c.Message).Explain(c.Message, c.Reason)
		}
	}
	return runstate.Reason{}
}

// headInGang: an operator that runs with --batch-scheduler puts every pod of a RayCluster into one gang, regardless of the pod's template
// (ray-operator 1.6, controllers/ray/batchscheduler). An early head would come with the workers.
func (o *Snapshot) headInGang() runstate.Reason {
	head := o.head()
	if head == nil || o.Cluster == nil || !objects.HasEarlyHead(o.Cluster) || !admit.ByPod(head.Spec.SchedulerName).Info().Holds(head) {
		return runstate.Reason{}
	}
	return runstate.Reason{
		Code: headHeld, Message: fmt.Sprintf("the head cannot start before the workers: the KubeRay operator runs with --batch-scheduler=%s, and puts all pods into one gang", head.Spec.SchedulerName),
		Hint: "leave out head.early, or ask for an operator without --batch-scheduler, as rayctl makes the gang itself",
	}
}

// disruptedPods returns why Kubernetes removes a pod: its node is lost or drained, or a pod of higher priority needs the place. A pod that has ended,
// such as an earlier one of the keeper's Job, stays until the end and is not counted.
func (o *Snapshot) disruptedPods() runstate.Reason {
	for _, p := range o.Pods {
		if transport.PodEnded(p) {
			continue
		}
		if c := disruption(p); c != nil {
			return runstate.Reason{Code: c.Reason, Message: fmt.Sprintf("pod %s is taken away from node %s: %s", p.Name, p.Spec.NodeName, c.Message)}
		}
	}
	return runstate.Reason{}
}

// stuckPods: what keeps containers from running.
func (o *Snapshot) stuckPods() runstate.Reason {
	for _, p := range o.rayPods() {
		if r := stuckPod(p); r.Code != "" && p.DeletionTimestamp == nil {
			return r
		}
	}
	return runstate.Reason{}
}

// stuckPod explains a container that cannot start or does not stay up.
func stuckPod(p *corev1.Pod) runstate.Reason {
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		who := fmt.Sprintf("container %s of pod %s", c.Name, p.Name)
		ended := c.LastTerminationState.Terminated
		if ended == nil {
			ended = c.State.Terminated
		}
		waiting := c.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "", "ContainerCreating", "PodInitializing":
			continue
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			return runstate.Reason{Code: waiting.Reason, Message: fmt.Sprintf("the image of %s cannot be pulled: %s", who, waiting.Message), Hint: "check image and kuberay.imagePullSecrets"}
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return runstate.Reason{Code: waiting.Reason, Message: fmt.Sprintf("%s cannot start: %s", who, waiting.Message), Hint: "check secrets and mounts"}
		case "CrashLoopBackOff":
			return crashed(p, c.Name, ended)
		default:
			return runstate.Reason{Code: waiting.Reason, Message: fmt.Sprintf("%s waits: %s", who, cmp.Or(waiting.Message, waiting.Reason))}
		}
	}
	return runstate.Reason{}
}

func crashed(p *corev1.Pod, container string, ended *corev1.ContainerStateTerminated) runstate.Reason {
	who := fmt.Sprintf("container %s of pod %s", container, p.Name)
	switch {
	case ended == nil:
		return runstate.Reason{Code: "CrashLoopBackOff", Message: who + " ends again and again", Hint: logsOf(p, container) + " may show why"}
	case ended.Reason == "OOMKilled":
		return runstate.Reason{Code: ended.Reason, Message: who + " was killed because it needed more memory than it may have", Hint: "raise memory of the group"}
	default:
		return runstate.Reason{
			Code:    "CrashLoopBackOff",
			Message: fmt.Sprintf("%s ends with code %d: %s", who, ended.ExitCode, cmp.Or(lastLines(ended.Message), ended.Reason)),
			Hint:    logsOf(p, container) + " shows all of it",
		}
	}
}

// logsOf is the command that shows what a container printed before it was started again.
func logsOf(p *corev1.Pod, container string) string {
	return fmt.Sprintf("`kubectl logs -n %s %s -c %s --previous`", p.Namespace, p.Name, container)
}

// lastLines keeps the end of what a container printed.
func lastLines(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-5):], "; ")
}

// Stuck explains a keeper's pod that will not start; "" while it may.
func Stuck(p *corev1.Pod) string {
	if r := stuckPod(p); r.Code != "" {
		return r.Message
	}
	return ""
}

// waitingGang returns why the gang's scheduler has no node for pods.
func (o *Snapshot) waitingGang() runstate.Reason {
	pending := o.pending()
	if len(pending) == 0 {
		return runstate.Reason{}
	}
	w := admit.Waiting{Pod: pending[0], Overdue: o.Now.Sub(pending[0].CreationTimestamp.Time) > Silence, Object: o.gang, Unplaced: o.unscheduledMessage()}
	if o.gang != nil {
		w.Event = o.event(o.gang.GetKind(), o.gang.GetUID(), "Unschedulable")
	}
	r := admit.ByPod(pending[0].Spec.SchedulerName).Why(w)
	if r.Code == "" {
		return r
	}
	return o.withNodesMade(pending, r)
}

// unscheduledPods: Kubernetes' own scheduler, or none that answers to the name.
func (o *Snapshot) unscheduledPods() runstate.Reason {
	if message := o.unscheduledMessage(); message != "" {
		return o.withNodesMade(o.pending(), runstate.Reason{Code: "Unschedulable", Message: "no node has room: " + message})
	}
	pending := o.pending()
	if gated := slices.IndexFunc(pending, func(p *corev1.Pod) bool { return len(p.Spec.SchedulingGates) > 0 }); gated >= 0 {
		return gatedPod(pending[gated])
	}
	if len(pending) == 0 || o.Now.Sub(pending[0].CreationTimestamp.Time) <= Silence {
		return runstate.Reason{}
	}
	return runstate.Reason{Code: "NoScheduler", Message: fmt.Sprintf("the pods are not scheduled: no scheduler named %q answers", cmp.Or(pending[0].Spec.SchedulerName, "default-scheduler"))}
}

// gatedPod: no scheduler looks at a pod while it has a gate, which a queueing system or a policy has set and takes away.
func gatedPod(p *corev1.Pod) runstate.Reason {
	var gates []string
	for _, g := range p.Spec.SchedulingGates {
		gates = append(gates, g.Name)
	}
	return runstate.Reason{
		Code: corev1.PodReasonSchedulingGated, Message: fmt.Sprintf("pod %s is not scheduled yet: it waits for its scheduling gates %s", p.Name, strings.Join(gates, ", ")),
		Hint: "what has set them takes them away: ask your administrators if it does not",
	}
}

func (o *Snapshot) unscheduledMessage() string {
	for _, p := range o.pending() {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
				return c.Message
			}
		}
	}
	return ""
}

// pending are pods without a node.
func (o *Snapshot) pending() (out []*corev1.Pod) {
	for _, p := range o.rayPods() {
		if p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out
}

// idleOperator: a RayCluster at which nobody works.
func (o *Snapshot) idleOperator() runstate.Reason {
	c := o.Cluster
	if c == nil || len(o.rayPods()) > 0 || len(c.Status.Conditions) > 0 || c.Status.State != "" || o.Now.Sub(c.CreationTimestamp.Time) <= Silence { //nolint:staticcheck // see phase
		return runstate.Reason{}
	}
	return runstate.Reason{Code: "OperatorSilent", Message: "nothing reconciles the RayCluster: the KubeRay operator does not run, or does not watch this namespace", Hint: "`rayctl doctor` checks it"}
}

// event finds the latest event of an object with one of the reasons. Events of an earlier object of the same name, such as those of the cluster before
// this one, stay for an hour.
func (o *Snapshot) event(kind string, uid types.UID, reasons ...string) (latest *corev1.Event) {
	for _, e := range o.events {
		if e.InvolvedObject.Kind == kind && e.InvolvedObject.UID == uid && slices.Contains(reasons, e.Reason) && (latest == nil || eventTime(latest).Before(eventTime(e))) {
			latest = e
		}
	}
	return latest
}

// eventTime: old and new events keep their time in different fields.
func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	default:
		return e.EventTime.Time
	}
}

// EndOfPod describes how a pod's own container ended, with its termination message.
func EndOfPod(pod *corev1.Pod, container string) string {
	if t := ended(pod, container); t != nil {
		return fmt.Sprintf("exit code %d %s", t.ExitCode, tail.LastLine(t.Message))
	}
	return cmp.Or(pod.Status.Message, pod.Status.Reason)
}

// NotScheduled returns why the scheduler found no node for a pod; "" if it did.
func NotScheduled(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// disruption returns the condition by which Kubernetes removes a pod; nil if it does not.
func disruption(p *corev1.Pod) *corev1.PodCondition {
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}
