package kuberay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/pace"
)

// TestEvicted: a pod that is evicted, or preempted by Kubernetes' scheduler, is drained by Ray before its processes end. Work on a worker goes on meanwhile; with the head the driver gets its grace,
// and the next attempt follows. The keeper has an account that may not look at nodes, which is noted and harmless.
func TestEvicted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("evicted", evictedDriver)
	grace := units.Duration(20 * time.Second)
	s.Job.Grace, s.Sections = &grace, kuberayspec.In(&kuberayspec.Section{KeeperServiceAccountName: "default"})
	node := smallNode()
	node.Resources = map[string]float64{"w": 1}
	const slot = "rayctl.test/slot" // of which there is one
	b.offer(t, slot, "1")
	node.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "ray-worker", "resources": map[string]any{"limits": map[string]any{slot: "1"}}},
	}}})
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: node}}
	r := b.begin(t, b.l, s)
	r.printed(t, "begun\n")
	gone := b.preempt(t, slot)
	r.until(t, "the scheduler's reason", func(st launcher.Status) bool { return st.Reason.Code == corev1.PodReasonPreemptionByScheduler })
	r.printed(t, "finished\n")
	gone()
	b.evict(t, "ray.io/cluster=evicted,ray.io/node-type=head")
	r.wantEnd(t, "succeeded", 0, "begun\nworker warned within 20 s False finished\nhead warned within 20 s\nsaved\nagain because preempted\n")
	if attempts := r.outcome.Receipt.Attempts; len(attempts) != 2 || attempts[0].Cause != "preempted" {
		t.Errorf("attempts: %+v", attempts)
	}
	if notes := nodeNotes(r.outcome.Receipt.Timeline); strings.Count(notes, "the nodes of Kubernetes cannot be watched: 403 ") != 1 {
		t.Errorf("notes on nodes: %s", notes)
	}
}

// evictedDriver prints what it sees of the eviction of the worker, on which an actor works on meanwhile, and then of the head.
const evictedDriver = `exec python -c '
import os, signal, sys, time, ray
ray.init(log_to_driver=False, logging_level=40)
if os.environ["RAYCTL_ATTEMPT"] == "2":
    sys.exit(print("again because", os.environ["RAYCTL_RESTART_REASON"], flush=True))
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
` + untilDrained + `within = lambda node: "within 20 s" if 0 < draining()[node] / 1000 - time.time() < 21 else draining()[node]
print("worker warned", within(there), bool(told), ray.get(worker.finish.remote()), flush=True)
while not told or here not in draining():
    time.sleep(0.1)
print("head warned", within(here), flush=True)
time.sleep(1)
print("saved", flush=True)
'`

// preempt has Kubernetes' scheduler take the node from the pod that holds a resource, for another of a higher priority; what it returns deletes that one.
func (b bed) preempt(t *testing.T, resource string) (gone func()) {
	t.Helper()
	class := "high-" + b.namespace
	b.Create(t, "", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: `+class+`}, value: 1000}`)
	t.Cleanup(func() {
		if err := b.Core.SchedulingV1().PriorityClasses().Delete(context.Background(), class, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	b.Create(t, b.namespace, `{apiVersion: v1, kind: Pod, metadata: {name: preemptor}, spec: {priorityClassName: `+class+`, terminationGracePeriodSeconds: 0,
		containers: [{name: c, image: none, resources: {limits: {`+resource+`: 1}}}]}}`)
	return func() {
		if err := b.Core.CoreV1().Pods(b.namespace).Delete(t.Context(), "preemptor", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
}
