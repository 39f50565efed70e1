package kuberay_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/pace"
)

// untilDrained is a part of drivers: an actor works on a node of the group w, until Ray drains it.
const untilDrained = `draining, here = ray._private.state.state.get_draining_nodes, ray.get_runtime_context().get_node_id()
class Worker:
    def node(self):
        return ray.get_runtime_context().get_node_id()
    def finish(self):
        time.sleep(2)
        return "finished"
worker = ray.remote(num_cpus=0, resources={"w": 1})(Worker).remote()
there = ray.get(worker.node.remote())
print("begun", flush=True)
while there not in draining():
    time.sleep(0.1)
`

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

// TestEvicted: a pod that is evicted, or preempted by Kubernetes' scheduler, is drained by Ray before its processes end. Work on a worker goes on meanwhile; with the head the driver gets its grace,
// and the next attempt follows. The keeper has an account that may not look at nodes, which is noted and harmless.
func TestEvicted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("evicted", evictedDriver)
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
	r := b.run(t, b.l, s)
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

// TestPrepareFillsDisk: job.prepare writes more than the head's pod may. The kubelet evicts the pod, whatever job.restarts says of preemptions the run ends, and its cause is the kubelet's where the keeper
// may look at pods.
func TestPrepareFillsDisk(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("full", "echo never")
	s.Sections = kuberayspec.In(&kuberayspec.Section{KeeperServiceAccountName: b.account(t, "pod-watcher", permit("pods", "list", "watch"))})
	s.Job.Prepare = "echo begun; head -c 500M /dev/zero > /tmp/weights; echo written; sleep 600"
	s.Head.Sections = kuberayspec.PatchIn(spec.Object{"spec": map[string]any{"containers": []any{
		map[string]any{"name": "ray-head", "resources": map[string]any{"limits": map[string]any{"ephemeral-storage": "300Mi"}}},
	}}})
	r := b.run(t, b.l, s)
	e := r.wantEnd(t, "lost", runstate.CodeLost, "==> job.prepare <==\nbegun\nwritten\n")
	if !strings.Contains(e.Message, "the head's pod full-head-") || !strings.Contains(e.Message, "was evicted: Pod ephemeral local storage usage exceeds the total limit of containers 300Mi; write less there") {
		t.Errorf("%+v", e)
	}
	if left := b.left(t, r.id); len(left) > 0 || len(r.outcome.Receipt.Attempts) != 1 {
		t.Errorf("left: %v; attempts: %+v", left, r.outcome.Receipt.Attempts)
	}
}

// nodeNotes are what the timeline has of nodes.
func nodeNotes(events []runstate.Event) (text string) {
	for _, e := range events {
		if e.Kind == "node" {
			text += e.To + ": " + e.Message + "\n"
		}
	}
	return text
}

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

// evict asks for the eviction of pods, as `kubectl drain`, Karpenter and the cluster autoscaler do.
func (b bed) evict(t *testing.T, selector string) {
	t.Helper()
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil || len(pods.Items) == 0 {
		t.Fatalf("pods %s: %v, %v", selector, pods, err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp != nil {
			continue
		}
		eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: b.namespace}}
		if err := b.Core.PolicyV1().Evictions(b.namespace).Evict(t.Context(), eviction); err != nil {
			t.Fatal(err)
		}
	}
}
