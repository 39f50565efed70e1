package kuberay_test

import (
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/pace"
)

// evictedDriver prints what it sees of the eviction of the worker, on which an actor works on meanwhile, and then of the head.
const evictedDriver = `exec python -c '
import os, signal, sys, time, ray
ray.init(log_to_driver=False, logging_level=40)
if os.environ["RAYCTL_ATTEMPT"] == "2":
    sys.exit(print("again because", os.environ["RAYCTL_RESTART_REASON"], flush=True))
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
draining, here = ray._private.state.state.get_draining_nodes, ray.get_runtime_context().get_node_id()
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
print("worker warned of", round((draining()[there] / 1000 - time.time()) / 20) * 20, "s", bool(told), ray.get(worker.finish.remote()), flush=True)
while not told or here not in draining():
    time.sleep(0.1)
print("head warned of", round((draining()[here] / 1000 - time.time()) / 20) * 20, "s", flush=True)
time.sleep(1)
print("saved", flush=True)
'`

// TestEvicted: a pod that is evicted is drained by Ray before its processes end. Work on a worker goes on meanwhile; with the head the driver gets its grace,
// and the next attempt follows.
func TestEvicted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := job("evicted", evictedDriver)
	grace := units.Duration(20 * time.Second)
	s.Job.Grace = &grace
	node := smallNode()
	node.Resources = map[string]float64{"w": 1}
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: node}}
	r := b.run(t, b.l, s)
	r.printed(t, "begun\n")
	b.evict(t, "ray.io/cluster=evicted,ray.io/node-type=worker")
	r.printed(t, "finished\n")
	b.evict(t, "ray.io/cluster=evicted,ray.io/node-type=head")
	r.wantEnd(t, "succeeded", 0, "begun\nworker warned of 20 s False finished\nhead warned of 20 s\nsaved\nagain because preempted\n")
	if attempts := r.outcome.Receipt.Attempts; len(attempts) != 2 || attempts[0].Cause != "preempted" {
		t.Errorf("attempts: %+v", attempts)
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
