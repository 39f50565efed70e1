package observe

import (
	"strings"
	"testing"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

var launched = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// scene is a cluster of a head and a worker a minute after its launch, whose pods are pending.
func scene(change func(*Snapshot)) *Snapshot {
	at := metav1.NewTime(launched)
	pod := func(name, kind, group string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: at, Labels: map[string]string{
				objects.RayClusterLabel: "c", objects.RayNodeTypeLabel: kind, objects.RayGroupLabel: group, objects.LabelName: "c",
			}, Annotations: map[string]string{volcano.KubeGroupNameAnnotationKey: "ray-c-pg"}},
			Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{Name: "ray"}}},
		}
	}
	one := int32(1)
	o := &Snapshot{
		Now:     launched.Add(time.Minute),
		Job:     &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: at, Labels: map[string]string{objects.LabelManagedBy: objects.ManagedBy}}},
		Cluster: &rayv1.RayCluster{ObjectMeta: metav1.ObjectMeta{Name: "c", CreationTimestamp: at}, Spec: rayv1.RayClusterSpec{WorkerGroupSpecs: []rayv1.WorkerGroupSpec{{GroupName: "w", Replicas: &one}}}},
		Pods:    []*corev1.Pod{pod("c-head-x", objects.HeadNodeType, objects.HeadGroup), pod("c-w-y", "worker", "w")},
	}
	change(o)
	return o
}

func waiting(reason, message string) corev1.ContainerStatus {
	return corev1.ContainerStatus{Name: "ray-head", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}}
}

func onNode(o *Snapshot, s corev1.ContainerStatus) {
	o.Pods[0].Spec.NodeName = "node1"
	o.Pods[0].Status.ContainerStatuses = []corev1.ContainerStatus{s}
}

func crash(o *Snapshot, code int32, reason, message string) {
	s := waiting("CrashLoopBackOff", "back-off 10s restarting failed container")
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message}
	onNode(o, s)
}

func condition(o *Snapshot, kind, reason, message string) {
	o.Cluster.Status.Conditions = append(o.Cluster.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message})
}

func unscheduled(p *corev1.Pod, reason, message string) {
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: message}}
}

// podEvent is an event of a pod, at a second of the minute.
func podEvent(p *corev1.Pod, reason, message string, second int) *corev1.Event {
	return &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: p.Name, UID: p.UID}, Type: corev1.EventTypeNormal, Reason: reason, Message: message,
		LastTimestamp: metav1.NewTime(launched.Add(time.Duration(second) * time.Second)),
	}
}

func withGang(o *Snapshot, phase volcano.PodGroupPhase) {
	for _, p := range o.Pods {
		p.Spec.SchedulerName = "volcano"
	}
	changeGang(o, func(g *volcano.PodGroup) { g.Name, g.Spec.MinMember, g.Status.Phase = "ray-c-pg", 2, phase })
}

// changeGang changes the PodGroup, which is as the API server gives it.
func changeGang(o *Snapshot, change func(*volcano.PodGroup)) {
	g := &volcano.PodGroup{}
	if o.gang != nil {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.gang.Object, g); err != nil {
			panic(err)
		}
	}
	change(g)
	g.TypeMeta = metav1.TypeMeta{APIVersion: volcano.SchemeGroupVersion.String(), Kind: "PodGroup"}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(g)
	if err != nil {
		panic(err)
	}
	o.gang = &unstructured.Unstructured{Object: content}
}

// TestReasons has a row for each cause in what was measured on the real operator and Volcano, with their own strings.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Snapshot)
		phase  runstate.Phase
		code   string
		want   string // part of the sentence
	}{
		{"no room", func(o *Snapshot) {
			unscheduled(o.Pods[0], "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate")
		}, runstate.Queued, "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu"},
		{"Kueue", func(o *Snapshot) {
			o.Pods, o.Cluster.Namespace, o.Cluster.Spec.Suspend = nil, "rl", ptr.To(true)
			o.Cluster.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
		}, runstate.Queued, "HeldByQueue", "Kueue has not admitted the cluster to queue default yet"},
		{"Kueue, with its words", func(o *Snapshot) {
			o.Pods, o.Cluster.UID, o.Cluster.Spec.Suspend = nil, "u", ptr.To(true)
			o.Cluster.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
			o.inQueue = map[types.UID]admit.Held{"u": {Why: "LocalQueue default is inactive"}, "v": {Why: "of another"}}
		}, runstate.Queued, "HeldByQueue", "Kueue has not admitted the cluster to queue default yet: LocalQueue default is inactive"},
		{"Kueue, keeper", func(o *Snapshot) {
			o.Pods, o.Job.Spec.Suspend = nil, ptr.To(true)
			o.Job.Labels["kueue.x-k8s.io/queue-name"] = "default"
		}, runstate.Queued, "HeldByQueue", "Kueue has not admitted the keeper to queue default yet"},
		{"suspended", func(o *Snapshot) { o.Pods, o.Cluster.Spec.Suspend = nil, ptr.To(true) }, runstate.Suspended, "Suspended", "the RayCluster is suspended (spec.suspend)"},
		{"Kueue, taken back", func(o *Snapshot) {
			o.Pods, o.Cluster.Namespace, o.Cluster.Spec.Suspend = nil, "rl", ptr.To(true)
			o.Cluster.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
			o.Cluster.Status.StateTransitionTimes = map[rayv1.ClusterState]*metav1.Time{rayv1.Ready: {Time: launched}}
		}, runstate.Queued, heldAgain, "Kueue has taken the cluster back to queue default"},
		{"Kueue, taken back while it started", func(o *Snapshot) {
			o.Cluster.UID, o.Cluster.Spec.Suspend = "u", ptr.To(true)
			o.Cluster.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
			o.inQueue = map[types.UID]admit.Held{"u": {Why: "Preempted to accommodate b", TakenBack: true}}
			onNode(o, corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}) // and ends now
		}, runstate.Queued, heldAgain, "Kueue has taken the cluster back to queue default: Preempted to accommodate b"},
		{"Kueue, deactivated", func(o *Snapshot) {
			o.Pods, o.Cluster.UID, o.Cluster.Spec.Suspend = nil, "u", ptr.To(true)
			o.Cluster.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
			o.inQueue = map[types.UID]admit.Held{"u": {Why: "The workload is deactivated", TakenBack: true, Stopped: true}}
		}, runstate.Suspended, reasonSuspended, "Kueue has taken the cluster back to queue default: The workload is deactivated"},
		{"Kueue, never", func(o *Snapshot) {
			o.Pods, o.Cluster.UID, o.Cluster.Spec.Suspend = nil, "u", ptr.To(true)
			o.Cluster.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
			o.inQueue = map[types.UID]admit.Held{"u": {Why: "2 > maximum capacity (1)", Never: true}}
		}, runstate.Queued, quotaTooSmall, "Kueue never admits the cluster to queue default as the queue is now: 2 > maximum capacity (1)"},
		{"image", func(o *Snapshot) {
			onNode(o, waiting("ErrImagePull", `failed to resolve reference "nosuch:1": not found`))
		},
			runstate.Provisioning, "ErrImagePull", "nosuch:1"},
		{"image, later", func(o *Snapshot) { onNode(o, waiting("ImagePullBackOff", `Back-off pulling image "nosuch:1"`)) },
			runstate.Provisioning, "ImagePullBackOff", "nosuch:1"},
		{"crash", func(o *Snapshot) { crash(o, 2, "Error", "Usage: ray start\nError: No such option: --nosuch") },
			runstate.Provisioning, "CrashLoopBackOff", "container ray-head of pod c-head-x ends with code 2: Usage: ray start; Error: No such option: --nosuch"},
		{"memory", func(o *Snapshot) { crash(o, 137, "OOMKilled", "") }, runstate.Provisioning, "OOMKilled", "more memory"},
		{"secret missing", func(o *Snapshot) { onNode(o, waiting("CreateContainerConfigError", `secret "nosuch" not found`)) },
			runstate.Provisioning, "CreateContainerConfigError", `secret "nosuch" not found`},
		{"quota, worker", func(o *Snapshot) {
			o.Pods = o.Pods[:1]
			condition(o, "ReplicaFailure", "FailedCreateWorkerPod", "failed to create worker pod\npods \"c-w-worker-x2v4z\" is forbidden: exceeded quota: rq, requested: pods=1, used: pods=9, limited: pods=9")
		}, runstate.Queued, QuotaFull, "a pod of group w is refused: exceeded quota: rq, requested: pods=1, limited: pods=9"},
		{"quota, whole", func(o *Snapshot) {
			o.Pods = o.Pods[:1]
			condition(o, "ReplicaFailure", "FailedCreateWorkerPod", `pods "c-w-worker-x2v4z" is forbidden: exceeded quota: rq, requested: pods=1, used: pods=3, limited: pods=3`)
		}, runstate.Queued, quotaTooSmall, "the cluster as a whole needs pods=4"}, // keeper, record, head, worker
		{"quota, elastic", func(o *Snapshot) {
			least := int32(0)
			o.Pods, o.Cluster.Spec.EnableInTreeAutoscaling, o.Cluster.Spec.WorkerGroupSpecs[0].MinReplicas = o.Pods[:1], ptr.To(true), &least
			condition(o, "ReplicaFailure", "FailedCreateWorkerPod", `pods "c-w-worker-x2v4z" is forbidden: exceeded quota: rq, requested: pods=1, used: pods=3, limited: pods=3`)
		}, runstate.Queued, "FailedCreateWorkerPod", "exceeded quota: rq"}, // the start does not need it
		{"quota, head", func(o *Snapshot) {
			o.Pods = nil
			condition(o, "ReplicaFailure", "FailedCreateHeadPod", `pods "c-head" is forbidden: failed quota: rq: must specify limits.cpu for: ray-head`)
		}, runstate.Queued, quotaUndefined, "a pod of the head is refused: failed quota: rq: must specify limits.cpu"},
		{"service account", func(o *Snapshot) {
			o.Pods = nil
			condition(o, "ReplicaFailure", "FailedCreateHeadPod", `pods "c-head-" is forbidden: error looking up service account ns/none: serviceaccount "none" not found`)
		}, runstate.Queued, notThere, "service account ns/none"},
		{"bad spec", func(o *Snapshot) {
			o.Pods = nil
			o.events = []*corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "RayCluster", Name: "c"}, Reason: "InvalidRayClusterSpec", Message: "The RayCluster spec is invalid c: headGroupSpec should have at least one container"}}
		}, runstate.Queued, "InvalidRayClusterSpec", "at least one container"},
		{"bad spec of the cluster before", func(o *Snapshot) {
			o.Cluster.UID, o.Pods, o.Now = "now", nil, launched.Add(time.Second)
			o.events = []*corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "RayCluster", Name: "c", UID: "before"}, Reason: "InvalidRayClusterSpec", Message: "no container"}}
		}, runstate.Queued, "", ""},
		{"nodes are made", func(o *Snapshot) {
			unscheduled(o.Pods[0], "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
			o.events = []*corev1.Event{
				podEvent(o.Pods[0], "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", 1),
				podEvent(o.Pods[0], "TriggeredScaleUp", "pod triggered scale-up: [{gpus 0->2 (max: 8)}]", 2),
			}
		}, runstate.Queued, NodesBeingMade, "nodes are being made for 1 of 2 pods that have none: pod triggered scale-up: [{gpus 0->2 (max: 8)}]"},
		{"nodes are made by Karpenter for a gang", func(o *Snapshot) {
			withGang(o, volcano.PodGroupInqueue)
			changeGang(o, func(g *volcano.PodGroup) {
				g.Status.Conditions = []volcano.PodGroupCondition{{Type: volcano.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: "NotEnoughResources", Message: "2/2 tasks in gang unschedulable"}}
			})
			for i, p := range o.Pods {
				p.UID = types.UID(p.Name)
				unscheduled(p, "Unschedulable", "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.")
				o.events = append(o.events, podEvent(p, "Nominated", "Pod should schedule on: nodeclaim/gpus-x7k2p", i))
			}
		}, runstate.Queued, NodesBeingMade, "nodes are being made for 2 of 2 pods that have none: Pod should schedule on: nodeclaim/gpus-x7k2p"},
		{"no node is made any more", func(o *Snapshot) {
			unscheduled(o.Pods[0], "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
			o.events = []*corev1.Event{
				podEvent(o.Pods[0], "TriggeredScaleUp", "pod triggered scale-up: [{gpus 0->2 (max: 8)}]", 1),
				podEvent(o.Pods[0], "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 in backoff after failed scale-up", 2),
			}
		}, runstate.Queued, "Unschedulable", "1 Insufficient cpu.; no node is made for it: pod didn't trigger scale-up: 1 in backoff after failed scale-up"},
		{"nodes were made for the pod before", func(o *Snapshot) {
			unscheduled(o.Pods[0], "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
			before := o.Pods[0].DeepCopy()
			before.UID = "before"
			o.events = []*corev1.Event{podEvent(before, "TriggeredScaleUp", "pod triggered scale-up: [{gpus 0->2 (max: 8)}]", 1)}
		}, runstate.Queued, "Unschedulable", "no node has room: 0/1 nodes are available: 1 Insufficient cpu."},
		{"gang does not fit the queue", func(o *Snapshot) {
			withGang(o, volcano.PodGroupPending)
			o.events = []*corev1.Event{{InvolvedObject: corev1.ObjectReference{Kind: "PodGroup", Name: "ray-c-pg"}, Type: corev1.EventTypeNormal, Reason: "Unschedulable", Message: "queue resource quota insufficient: insufficient cpu"}}
		}, runstate.Queued, "QueueFull", "queue default: queue resource quota insufficient: insufficient cpu"},
		{"gang admitted, nodes full", func(o *Snapshot) {
			withGang(o, volcano.PodGroupInqueue)
			changeGang(o, func(g *volcano.PodGroup) {
				g.Status.Conditions = []volcano.PodGroupCondition{{Type: volcano.PodGroupUnschedulableType, Status: corev1.ConditionTrue, Reason: "NotEnoughResources", Message: "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Schedulable, 1 Unschedulable"}}
			})
			unscheduled(o.Pods[0], "Schedulable", "Pod ns/c-head-x can possibly be assigned to node1, once minAvailable is satisfied")
			unscheduled(o.Pods[1], "Unschedulable", "0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.")
		}, runstate.Queued, "NotEnoughResources", "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Schedulable, 1 Unschedulable (0/1 nodes are unavailable: 1 Insufficient nvidia.com/gpu.)"},
		{"PodGroup missing", func(o *Snapshot) { withGang(o, ""); o.gang = nil }, runstate.Queued, "PodGroupMissing", "PodGroup ray-c-pg does not exist"},
		{"queue missing", func(o *Snapshot) {
			withGang(o, "")
			changeGang(o, func(g *volcano.PodGroup) { g.Spec.Queue = "nosuch" })
		}, runstate.Queued, "PodGroupIgnored", "queue nosuch does not exist"},
		{"no such scheduler", func(o *Snapshot) {
			for _, p := range o.Pods {
				p.Spec.SchedulerName = "nosuch"
			}
		}, runstate.Queued, "NoScheduler", `no scheduler named "nosuch"`},
		{"gates", func(o *Snapshot) {
			o.Pods[1].Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "kueue.x-k8s.io/elastic-job"}, {Name: "site/check"}}
			unscheduled(o.Pods[1], "SchedulingGated", "Scheduling is blocked due to non-empty scheduling gates")
		}, runstate.Queued, "SchedulingGated", "pod c-w-y is not scheduled yet: it waits for its scheduling gates kueue.x-k8s.io/elastic-job, site/check"},
		{"operator not running", func(o *Snapshot) { o.Pods = nil }, runstate.Queued, "OperatorSilent", "nothing reconciles"},
		{"nothing wrong yet", func(o *Snapshot) { o.Now = launched.Add(time.Second) }, runstate.Queued, "", ""},
		{"being made", func(o *Snapshot) { onNode(o, waiting("ContainerCreating", "")); o.Pods = o.Pods[:1] }, runstate.Provisioning, "PullingOrStarting", "starting"},
		{"evicted", func(o *Snapshot) {
			onNode(o, corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
			o.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint"}}
		}, runstate.Starting, "DeletionByTaintManager", "pod c-head-x is taken away from node node1: Taint manager"},
		{"evicted before", func(o *Snapshot) {
			onNode(o, waiting("ErrImagePull", "not found"))
			o.Pods = append(o.Pods, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "c-x", Labels: map[string]string{objects.LabelName: "c", objects.LabelRole: objects.RoleKeeper}},
				Status: corev1.PodStatus{Phase: corev1.PodFailed, Conditions: []corev1.PodCondition{{
					Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet", Message: "The node was low on resource: memory."}}},
			})
		}, runstate.Provisioning, "ErrImagePull", "not found"},
		{"RayCluster deleted", func(o *Snapshot) { o.Pods, o.Cluster = nil, nil }, runstate.Queued, ClusterMissing, "it was deleted"},
		{"RayCluster not made yet", func(o *Snapshot) { o.Pods, o.Cluster, o.Now = nil, nil, launched.Add(time.Second) }, runstate.Queued, "", ""},
		{"starting", func(o *Snapshot) {
			onNode(o, corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
			o.Pods[1].Spec.NodeName = "node1"
		}, runstate.Starting, "WaitingForPods", "0 of 2 pods are ready"},
		{"ending", func(o *Snapshot) { o.Job.DeletionTimestamp = &metav1.Time{Time: launched} }, runstate.Draining, "Deleting", "pods left: 2"},
	} {
		phase, reason, _ := scene(c.change).phase()
		if phase != c.phase || reason.Code != c.code || !strings.Contains(reason.Message, c.want) {
			t.Errorf("%s: %s, %s, %q; want %s, %s, %q", c.name, phase, reason.Code, reason.Message, c.phase, c.code, c.want)
		}
	}
}
