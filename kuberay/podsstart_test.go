package kuberay_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestPodsStart has a gang that waits until nodes are made for it, looks at how its pods have started, and loses the worker's.
func TestPodsStart(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("quick", `tr '\0' ' ' < /proc/1/cmdline; echo; echo "BASH_ENV ${BASH_ENV-is unset}"; bash -c "sleep 0.2 &"
sleep 1; echo "zombies $(ps -eo stat | grep -c "^Z")"; `+workersOptions+waitingDriver)
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
	w := &s.Workers[0].NodeResources
	w.Labels, w.Env, w.Resources = map[string]string{"zone": "a", "site.org/rack": "7"}, map[string]string{"OWN": "it's $(mine)"}, map[string]float64{"x": 2}
	w.ObjectStoreMemory, w.ObjectSpillingDirectory = resource.MustParse("96Mi"), "/tmp/spill it's"
	w.Sections = oneOf(unit)
	r := b.begin(t, b.l, s)
	b.nodesAreMade(t, r)
	r.printed(t, "begun\n")
	b.podsHaveStarted(t, r)
	b.losesWorker(t, r)
	b.release(t, r.id)
	r.wantEnd(t, "succeeded", 0, r.startedAs(t)+"begun\ndone\n")
}

// workersOptions prints what `ray start` of the worker was given.
const workersOptions = `python -c '
import ray
ray.init(log_to_driver=False)
node = [n for n in ray.nodes() if n["NodeManagerAddress"] != ray.util.get_node_ip_address()][0]
@ray.remote(label_selector={"zone": "a"}, num_cpus=0)
def own():
    import os
    return os.environ["OWN"]
print("worker", int(node["Resources"]["object_store_memory"]) >> 20, node["Resources"]["x"], node["Labels"]["site.org/rack"], ray.get(own.remote()))
'
`

// unit is a resource that no node has.
const unit = "rayctl.test/unit"

// nodesAreMade: a gang waits for a resource that no node has. That nodes are made for it is its reason, of the newest event of the pods that are there
// now, and it begins when there is one. There is no cloud to make nodes: the events are those of the cluster autoscaler (cluster-autoscaler 1.34,
// processors/status/eventing_scale_up_processor.go) and of Karpenter (1.x, pkg/controllers/provisioning/scheduling/events.go), by the recorder of client-go
// that they use, and the node that comes is the bed's own, which gets the resource.
func (b bed) nodesAreMade(t *testing.T, r *watchedRun) {
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

// podsHaveStarted looks at what pod/wait.sh makes of a worker: KubeRay's init container looked at the head once.
func (b bed) podsHaveStarted(t *testing.T, r *watchedRun) {
	t.Helper()
	pods, err := b.Core.CoreV1().Pods(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/cluster=quick,ray.io/node-type=worker"})
	if err != nil || len(pods.Items) != 1 {
		t.Fatalf("workers: %v, %v", pods, err)
	}
	waited, err := b.Core.CoreV1().Pods(b.namespace).GetLogs(pods.Items[0].Name, &corev1.PodLogOptions{Container: "wait-gcs-ready"}).DoRaw(t.Context())
	if err != nil || string(waited) != "GCS is ready.\n" {
		t.Errorf("wait-gcs-ready: %q, %v", waited, err)
	}
}

// losesWorker: KubeRay makes another worker and the job goes on; the lost worker is reported by name, and is DEAD in the status.
func (b bed) losesWorker(t *testing.T, r *watchedRun) {
	t.Helper()
	b.DeletePods(t, b.namespace, "ray.io/cluster="+string(r.id)+",ray.io/node-type=worker", 0)
	r.until(t, "word of the lost worker", func(st launcher.Status) bool {
		return slices.ContainsFunc(st.Timeline, func(e runstate.Event) bool {
			return e.Kind == runstate.EventNode && e.To == runstate.NodeDead &&
				slices.ContainsFunc(st.Nodes, func(n runstate.Node) bool { return n.Name == e.Code && n.State == runstate.NodeDead })
		})
	})
}

// startedAs is what the driver prints before it begins. It shows what objects/node.sh and objects/wait.sh make of a pod: our `ray start` is its first process and collects
// orphans, and what names wait.sh is not passed on.
func (r *watchedRun) startedAs(t *testing.T) string {
	t.Helper()
	out, _, _ := strings.Cut(r.printedSoFar(), "begun\n")
	for _, want := range []string{"/rayctl/keeper.pyz ray start --head", "BASH_ENV is unset\n", "zombies 0\n", "worker 96 2.0 7 it's $(mine)\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in %q", want, out)
		}
	}
	return out
}
