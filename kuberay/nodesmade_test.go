package kuberay_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	machine "github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/pace"
)

// unit is a resource that no node has.
const unit = "rayctl.test/unit"

// oneOf has a worker's pod ask for such a resource.
func oneOf(unit string) spec.Sections {
	return kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "ray-worker", "resources": map[string]any{"limits": map[string]any{unit: "1"}}},
	}}})
}

// TestNodeComesLate: without a gang scheduler the head is there when the worker's node is still being made. That ends nothing, however short lifetime.start is:
// it begins with the node, and is then, a second, too short for Ray.
func TestNodeComesLate(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	const late, start = "rayctl.test/late", time.Second
	s := job("late", "echo never")
	s.Lifetime.Start = units.Limit(start)
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
	s.Workers[0].Sections = oneOf(late)
	s.Sections = kuberayspec.In(&kuberayspec.Section{Scheduler: "none"})
	r := b.run(t, b.l, s)
	answered := func(st launcher.Status) bool { return st.Phase == runstate.Starting && st.Head.Session != "" }
	r.until(t, "the head's answer", answered)
	since := time.Now()
	autoscaler := b.recorder(t, "cluster-autoscaler")
	autoscaler.Event(b.worker(t, ""), corev1.EventTypeNormal, "TriggeredScaleUp", "pod triggered scale-up: [{late 0->1 (max: 1)}]")
	r.until(t, "the reason", func(st launcher.Status) bool { return answered(st) && st.Reason.Code == "NodesBeingMade" })
	kubetest.Await(t, "lifetime.start to pass", func(context.Context) error {
		if left := 2*start - time.Since(since); left > 0 {
			return fmt.Errorf("%s are left", left)
		}
		return nil
	})
	autoscaler.Event(b.worker(t, ""), corev1.EventTypeNormal, "TriggeredScaleUp", "pod triggered scale-up: [{late 0->2 (max: 2)}]")
	r.until(t, "the newer reason", func(st launcher.Status) bool { return answered(st) && strings.Contains(st.Reason.Message, "0->2") })
	b.offer(t, late, "1")
	if e := r.wantEnd(t, "start-failed", runstate.CodeStartFailed, ""); !strings.Contains(e.Message, "lifetime.start") {
		t.Errorf("it ended by %q", e.Message)
	}
	if !slices.ContainsFunc(r.outcome.Receipt.Timeline, func(e runstate.Event) bool { return e.To == "Granted" }) {
		t.Error("the worker's pod has not told the keeper of its node")
	}
}

// nodesAreMade: a gang waits for a resource that no node has. That nodes are made for it is its reason, of the newest event of the pods that are there
// now, and it begins when there is one. There is no cloud to make nodes: the events are those of the cluster autoscaler (cluster-autoscaler 1.34,
// processors/status/eventing_scale_up_processor.go) and of Karpenter (1.x, pkg/controllers/provisioning/scheduling/events.go), by the recorder of client-go
// that they use, and the node that comes is the bed's own, which gets the resource.
func (b bed) nodesAreMade(t *testing.T, r *running) {
	t.Helper()
	reason := func(made bool, part string) {
		t.Helper()
		r.until(t, "the reason "+part, func(st launcher.Status) bool {
			return st.Phase == runstate.Queued && (st.Reason.Code == "NodesBeingMade") == made && strings.Contains(st.Reason.Message, part)
		})
	}
	reason(false, "the gang ")
	autoscaler, karpenter := b.recorder(t, "cluster-autoscaler"), b.recorder(t, "karpenter")
	autoscaler.Event(b.worker(t, ""), corev1.EventTypeNormal, "TriggeredScaleUp", "pod triggered scale-up: [{units 0->1 (max: 2)}]")
	reason(true, "nodes are being made for 1 of 2 pods that have none: pod triggered scale-up: [{units 0->1 (max: 2)}]")
	was := b.worker(t, "")
	b.DeletePods(t, b.namespace, "ray.io/group=w", 0)
	now := b.worker(t, was.UID)
	reason(false, "the gang ") // the reason of the previous pod is not this one's
	autoscaler.Event(now, corev1.EventTypeNormal, "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 in backoff after failed scale-up")
	reason(false, "; no node is made for it: pod didn't trigger scale-up: 1 in backoff after failed scale-up")
	karpenter.Event(now, corev1.EventTypeNormal, "Nominated", "Pod should schedule on: nodeclaim/units-x7k2p")
	reason(true, "Pod should schedule on: nodeclaim/units-x7k2p")
	b.offer(t, unit, "1")
}

// recorder writes events as a component does, until the test's end.
func (b bed) recorder(t *testing.T, component string) record.EventRecorder {
	t.Helper()
	events := record.NewBroadcaster()
	t.Cleanup(events.Shutdown)
	events.StartRecordingToSink(&typed.EventSinkImpl{Interface: b.Core.CoreV1().Events("")})
	return events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
}

// worker is the pod of group w, another one than that of this UID, when the scheduler has looked at it.
func (b bed) worker(t *testing.T, before types.UID) (pod *corev1.Pod) {
	t.Helper()
	kubetest.Await(t, "the worker's pod", func(ctx context.Context) error {
		pods, err := b.Core.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{LabelSelector: "ray.io/group=w"})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.UID != before && p.DeletionTimestamp == nil && len(p.Status.Conditions) > 0 {
				pod = &p
				return nil
			}
		}
		return errors.New("it is not there")
	})
	return pod
}

// offer gives the node a resource, for this test.
func (b bed) offer(t *testing.T, name, amount string) {
	t.Helper()
	patch := func(value any) error {
		text, err := json.Marshal(map[string]any{"status": map[string]any{"capacity": map[string]any{name: value}, "allocatable": map[string]any{name: value}}})
		if err != nil {
			return err
		}
		_, err = b.Core.CoreV1().Nodes().Patch(context.Background(), machine.NodeName, types.StrategicMergePatchType, text, metav1.PatchOptions{}, "status")
		return err
	}
	if err := patch(amount); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := patch(nil); err != nil {
			t.Error(err)
		}
	})
}
