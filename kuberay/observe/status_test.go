package observe

import (
	"slices"
	"strings"
	"testing"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestAutoscaledGroups: a keeper counts the gang, Kubernetes what there is now.
func TestAutoscaledGroups(t *testing.T) {
	two := int32(2)
	o := scene(func(o *Snapshot) {
		w := o.Cluster.Spec.WorkerGroupSpecs[0]
		w.Replicas = &two
		o.Cluster.Spec.WorkerGroupSpecs = append(o.Cluster.Spec.WorkerGroupSpecs[:0], w)
	})
	st := &runstate.State{
		Phase: runstate.Ready, Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Ready: 1, Wanted: 1, GPUs: 8}},
		Nodes: []runstate.Node{{Group: "head", State: "ALIVE"}, {Group: "w", State: "ALIVE"}, {Group: "w", State: "DEAD"}, {Group: "w", State: "ALIVE"}},
	}
	want := []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Ready: 2, Wanted: 2, GPUs: 8}}
	if got := LivingStatus("c", "n", o, st, "").Groups; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	least, most := int32(1), int32(4)
	o.Cluster.Spec.EnableInTreeAutoscaling = ptr.To(true)
	o.Cluster.Spec.WorkerGroupSpecs[0].MinReplicas, o.Cluster.Spec.WorkerGroupSpecs[0].MaxReplicas = &least, &most
	st.Groups[1].Min, st.Groups[1].Max = 0, 8
	want[1].Min, want[1].Max = 1, 4 // not those of the launch
	if got := LivingStatus("c", "n", o, st, "").Groups; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	st.Groups, st.Nodes[0].Group = []runstate.Group{{Name: "w", Ready: 3, Wanted: 3, Min: 1, Max: 9}}, "w" // the head is the first of the group
	if got := LivingStatus("c", "n", o, st, "").Groups; !slices.Equal(got, []runstate.Group{{Name: "w", Ready: 3, Wanted: 3, Min: 2, Max: 5}}) {
		t.Errorf("%+v", got)
	}
	st.Groups = []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}} // a group that may be empty is not in the gang
	if got := LivingStatus("c", "n", o, st, "").Groups; len(got) != 2 || got[1].Wanted != 2 {
		t.Errorf("%+v", got)
	}
}

// TestTakenBackIsQueuedAgain: a cluster that its queue takes back waits again, since its pods are gone; the keeper, which only finds that the head is silent, knows that
// later, and what it knows of the end stays.
func TestTakenBackIsQueuedAgain(t *testing.T) {
	gone := metav1.NewTime(launched.Add(40 * time.Second))
	o := scene(func(o *Snapshot) {
		o.Pods, o.Cluster.Spec.Suspend = nil, ptr.To(true)
		o.Cluster.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
		o.Cluster.Status.StateTransitionTimes = map[rayv1.ClusterState]*metav1.Time{rayv1.Ready: {Time: launched}, rayv1.Suspended: &gone}
	})
	for keeper, st := range map[string]*runstate.State{
		"Ready": {Phase: runstate.Ready, Since: launched}, "Starting": {Phase: runstate.Starting, Since: launched}, "Queued": {Phase: runstate.Queued, Since: launched}, "silent": nil,
	} {
		got := LivingStatus("c", "n", o, st, "")
		if got.Phase != runstate.Queued || got.Reason.Code != heldAgain || !got.Since.Equal(gone.Time) {
			t.Errorf("the keeper is %s: %s since %s, %+v", keeper, got.Phase, got.Since, got.Reason)
		}
	}
	o.Cluster.Status.StateTransitionTimes[rayv1.Suspended] = &metav1.Time{Time: launched.Add(-time.Hour)} // before it was first admitted
	if got := LivingStatus("c", "n", o, nil, ""); !got.Since.Equal(o.Now) {
		t.Errorf("its pods are ending: since %s", got.Since)
	}
	o.Job.DeletionTimestamp = &metav1.Time{Time: launched}
	if got := LivingStatus("c", "n", o, &runstate.State{Phase: runstate.Ready}, ""); got.Phase != runstate.Draining {
		t.Errorf("that ends: %+v", got)
	}
}

// TestQueueHasTheFirstWord: a launch is committed when the queue that its RayCluster waits in has said why; what the queue never admits ends the launch.
func TestQueueHasTheFirstWord(t *testing.T) {
	o := scene(func(o *Snapshot) {
		o.Pods, o.Cluster.UID, o.Cluster.Spec.Suspend, o.Cluster.Status.ObservedGeneration = nil, "u", ptr.To(true), 1
		o.Cluster.Labels = map[string]string{"kueue.x-k8s.io/queue-name": "default"}
	})
	if o.Admitted() || o.Refused("c") != nil {
		t.Error("the queue has said nothing")
	}
	o.inQueue = map[types.UID]admit.Held{"u": {Why: "no room now"}}
	if !o.Admitted() || o.Refused("c") != nil {
		t.Errorf("the queue has said that it waits: %v", o.Refused("c"))
	}
	o.inQueue = map[types.UID]admit.Held{"u": {Why: "2 > maximum capacity (1)", Never: true}}
	if err := o.Refused("c"); launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "2 > maximum capacity (1)") || !strings.Contains(err.Error(), "ask for less") {
		t.Errorf("%v", err)
	}
	o.inQueue, o.Cluster.Spec.Suspend = nil, nil
	if !o.Admitted() {
		t.Error("no queue holds it")
	}
}

// TestSuspendedByHand: a cluster that somebody suspends; the keeper only finds that the head is silent.
func TestSuspendedByHand(t *testing.T) {
	o := scene(func(o *Snapshot) { o.Pods, o.Cluster.Spec.Suspend = nil, ptr.To(true) })
	got := LivingStatus("c", "n", o, &runstate.State{Phase: runstate.Ready}, "")
	if got.Phase != runstate.Suspended || got.Reason.Code != reasonSuspended {
		t.Errorf("%+v", got)
	}
	if got := LivingStatus("c", "n", o, nil, ""); got.Phase != runstate.Suspended || got.Unreachable != "" {
		t.Errorf("as Kubernetes shows it: %+v", got)
	}
	o.Job.DeletionTimestamp = &metav1.Time{Time: launched}
	if got := LivingStatus("c", "n", o, &runstate.State{Phase: runstate.Ready}, ""); got.Phase != runstate.Draining {
		t.Errorf("that ends: %+v", got)
	}
}

// TestUncommitted: before the keeper says it, the record shows whether the client has committed the launch.
func TestUncommitted(t *testing.T) {
	marked := map[string]string{objects.AnnotationCommitted: "true"}
	queued := func(o *Snapshot) { o.Pods, o.Record = nil, &batchv1.Job{} }
	for name, c := range map[string]struct {
		arrange func(*Snapshot)
		st      *runstate.State
		want    bool
	}{
		"queued":                    {queued, nil, true},
		"without a record":          {func(o *Snapshot) { o.Pods, o.Record = nil, nil }, nil, true},
		"committed":                 {func(o *Snapshot) { queued(o); o.Record.Annotations = marked }, nil, false},
		"not rayctl's":              {func(o *Snapshot) { queued(o); o.Record, o.Job, o.Cluster.Labels = nil, nil, nil }, nil, false},
		"the keeper says it":        {func(o *Snapshot) { o.Record = &batchv1.Job{} }, &runstate.State{Phase: runstate.Starting}, true},
		"the keeper has the commit": {queued, &runstate.State{Phase: runstate.Starting, Committed: true}, false},
		"its keeper does not answer": {func(o *Snapshot) { // the record may be one of an earlier rayctl
			o.Record = &batchv1.Job{}
			for _, p := range o.Pods {
				p.Spec.NodeName, p.Status.ContainerStatuses = "node1", []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
			}
		}, nil, false},
	} {
		if got := LivingStatus("c", "n", scene(c.arrange), c.st, ""); got.Uncommitted != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestFirstStatus: a keeper's first state document says nothing, and Kubernetes does.
func TestFirstStatus(t *testing.T) {
	o := scene(func(o *Snapshot) {
		unscheduled(o.Pods[0], "Unschedulable", "0/1 nodes are available: 1 Insufficient cpu.")
	})
	if got := LivingStatus("c", "n", o, &runstate.State{}, ""); got.Phase != runstate.Queued || got.Reason.Code != "Unschedulable" {
		t.Errorf("%q, %+v", got.Phase, got.Reason)
	}
}

// TestReadyByPods: pods that are ready are no nodes in Ray, which only the keeper knows of.
func TestReadyByPods(t *testing.T) {
	o := scene(func(o *Snapshot) {
		onNode(o, corev1.ContainerStatus{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		o.Cluster.Status.State = rayv1.Ready //nolint:staticcheck // see phase
		for _, p := range o.Pods {
			p.Spec.NodeName, p.Status.Conditions = "node1", []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
	})
	if got := LivingStatus("c", "n", o, nil, ""); got.Phase != runstate.Ready || !strings.Contains(got.Unreachable, "the keeper does not answer") {
		t.Errorf("%s, %q", got.Phase, got.Unreachable)
	}
	st := &runstate.State{Phase: runstate.Starting, Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Wanted: 1}}}
	if got := LivingStatus("c", "n", o, st, ""); got.Phase != runstate.Starting || got.Unreachable != "" || got.Groups[1].Ready != 0 {
		t.Errorf("%+v", got)
	}
}

// TestQueuedNodes: pods without a node are allocations that wait where the group has its least, with the reason of each.
func TestQueuedNodes(t *testing.T) {
	st := &runstate.State{Phase: runstate.Ready, Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Ready: 1, Wanted: 3, Max: 4}}}
	o := scene(func(o *Snapshot) {
		w := &o.Cluster.Spec.WorkerGroupSpecs[0]
		o.Cluster.Spec.EnableInTreeAutoscaling = ptr.To(true)
		w.Replicas, w.MinReplicas, w.MaxReplicas = ptr.To[int32](3), ptr.To[int32](2), ptr.To[int32](4)
		for i, name := range []string{"c-w-1", "c-w-2"} {
			p := o.Pods[1].DeepCopy()
			p.Name, p.UID, p.CreationTimestamp.Time = name, types.UID(name), launched.Add(time.Duration(i+1)*time.Second)
			unscheduled(p, "Unschedulable", "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.")
			o.Pods = append(o.Pods, p)
		}
		o.Pods[0].Spec.NodeName, o.Pods[1].Spec.NodeName = "node1", "node1"
		o.events = append(o.events, podEvent(o.Pods[3], "NotTriggerScaleUp", "pod didn't trigger scale-up", 5))
	})
	got := LivingStatus("c", "n", o, st, "").Allocations
	if len(got) != 1 || got[0].ID != "c-w-2" || got[0].State != runstate.AllocationQueued || got[0].Groups["w"] != 1 || !got[0].Queued.Equal(launched.Add(2*time.Second)) ||
		got[0].Message != "no node has room: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.; no node is made for it: pod didn't trigger scale-up" {
		t.Errorf("%+v", got)
	}
	o.Cluster.Spec.WorkerGroupSpecs[0].MinReplicas = ptr.To[int32](3)
	if got := LivingStatus("c", "n", o, st, "").Allocations; len(got) != 0 {
		t.Errorf("of required nodes: %+v", got)
	}
}

// TestDeletedWithItsRecord: what was known of a cluster that somebody deleted with its record stays known.
func TestDeletedWithItsRecord(t *testing.T) {
	o := &Snapshot{Now: launched.Add(time.Minute)}
	st := &runstate.State{Name: "c", Attempt: 1, Phase: runstate.Ready, Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}}, Job: &runstate.Job{SubmissionID: "c-1", State: runstate.JobRunning},
		Timeline: []runstate.Event{{At: launched, Attempt: 1, Kind: runstate.EventPhase, To: string(runstate.Ready)}}}
	got := FinalStatus("c", "n", o, st)
	if got.Exit == nil || got.Exit.Cause != runstate.CauseLost || got.Exit.Message != "it was deleted, and left no record" || len(got.Timeline) != 2 || got.Job.State != runstate.JobFailed || len(got.Groups) != 1 {
		t.Errorf("%+v", got)
	}
	if st.Exit != nil || len(st.Timeline) != 1 {
		t.Errorf("the keeper's state was changed: %+v", st)
	}
	if rc := launcher.NewReceipt(launcher.NewResult(got, launcher.LogInfo{}, nil)); rc.Usage.Nodes != 1 || rc.Durations.Queued > 0 {
		t.Errorf("%+v", rc)
	}
	if got := FinalStatus("c", "n", o, nil); got.Exit == nil || got.Exit.Cause != runstate.CauseLost {
		t.Errorf("%+v", got)
	}
}
