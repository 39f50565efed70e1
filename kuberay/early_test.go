package kuberay_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestEarly is about heads that come before the gang, which waits in a queue of Volcano that has no room for it: whatever happens meanwhile, both end. That the
// driver begins with the gang, or with the head, is in it, too: the conformance suite leaves that to this test.
func TestEarly(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	limited := b.earlyQueueLimit(t) // waits beside the others
	// One after the other: heads that wait for their gangs hold memory of the only node.
	t.Run("KeeperLost", b.earlyKeeperLost)
	t.Run("Elastic", b.earlyElastic)
	t.Run("Evicted", b.earlyEvicted)
	t.Run("PrepareFails", b.earlyPrepareFails)
	if conformance.Whole() { // else TestRayClusterDeleted and TestKeeperJobDeleted show it, without an early head
		t.Run("Razed", b.earlyRazed)
		t.Run("Forgotten", b.earlyForgotten)
	}
	t.Run("HeadLost", b.earlyHeadLost)
	t.Run("QueueLimit", limited)
}

// earlyQueueLimit: lifetime.queue counts for the gang from the head's start. What it returns waits for it to pass.
func (b bed) earlyQueueLimit(t *testing.T) func(t *testing.T) {
	t.Helper()
	s := b.early(t, "patient", "", "echo never")
	s.Lifetime.Queue = units.Limit(2 * time.Minute) // also for the head, behind other tests' pods
	r := b.begin(t, b.l, s)
	r.until(t, "waiting for its gang", gangWaits)
	return func(t *testing.T) {
		if e := r.wantEnd(t, "queue", runstate.CodeQueueTimeout, ""); !strings.Contains(e.Message, "the gang waits") {
			t.Errorf("%+v", e)
		}
		r.wantNoGang(t)
	}
}

// early is a cluster whose gang, two unlike workers, waits in a queue that has no room.
func (b bed) early(t *testing.T, name, prepare, entrypoint string) *spec.ClusterSpec {
	t.Helper()
	s := named(name, entrypoint)
	s.Job.Prepare = prepare
	s.Head.Early = true
	one := smallNode()
	other := one
	other.CPUs = 0.3
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: one}, {Name: "v", NodeResources: other}}
	s.Sections = kuberayspec.In(&kuberayspec.Section{Queue: b.tinyQueue(t)})
	return s
}

// gangWaits: the head is there, and the gang is queued for Volcano's reason.
func gangWaits(st launcher.Status) bool {
	return st.Phase == runstate.Queued && st.Reason.Code == "QueueFull" && allocation(st, runstate.PurposeGang).State == "queued"
}

// wantNoGang: the workers never had nodes, and are not charged.
func (r *watchedRun) wantNoGang(t *testing.T) {
	t.Helper()
	for _, a := range r.status.Allocations {
		if a.Purpose == runstate.PurposeGang && (a.Granted != nil || a.State != "released") || a.Purpose == runstate.PurposeHead && a.Granted == nil {
			t.Errorf("%+v", a)
		}
	}
	if u := r.outcome.Receipt.Usage; u.Nodes != 1 {
		t.Errorf("%+v", u)
	}
}

// earlyKeeperLost: job.prepare goes on and its output is shown while the gang waits, also where the keeper's pod is lost meanwhile; the next keeper charges head and gang
// from their own grants.
func (b bed) earlyKeeperLost(t *testing.T) {
	s := b.early(t, "early", "echo weights; "+untilGo, aliveNodes)
	r := b.begin(t, b.l, s)
	r.until(t, "preparing", preparing)
	r.printed(t, "weights\n")
	if n := b.scheduled(t, r.id); n != 1 {
		t.Errorf("%d pods have a node, not the head alone", n)
	}
	b.loseKeeper(t, r.id, func(int) { b.killKeeper(t, r.id) })
	b.release(t, r.id)
	r.until(t, "prepared", func(st launcher.Status) bool {
		return gangWaits(st) && st.Job.Prepare.State == runstate.JobSucceeded && st.Job.State == runstate.JobWaiting
	})
	before := time.Now()
	b.widen(t, kuberayspec.Of(s).Queue)
	r.wantEnd(t, "succeeded", 0, "==> job.prepare <==\nweights\n==> driver <==\nnodes: 3\n")
	head, gang := r.status.Allocations[0], r.status.Allocations[1]
	if len(r.status.Allocations) != 2 || head.Granted == nil || head.Granted.After(before) || gang.Granted == nil || gang.Granted.Before(before.Truncate(time.Second)) {
		t.Errorf("widened at %s: %+v", before, r.status.Allocations)
	}
	// The head is charged while the gang is queued, the two workers are not: on a busy machine most of that time is the head's own start, which counts as Queued.
	if u, d := r.outcome.Receipt.Usage, r.outcome.Receipt.Durations; u.Nodes != 3 || u.NodeSeconds >= d.Total+2*(d.Total-d.Queued) {
		t.Errorf("the gang is charged from its grant only: %+v, %+v", u, d)
	}
}

// untilGo is a command that waits for bed.release.
const untilGo = "until [ -e /tmp/go ]; do sleep 0.2; done"

// aliveNodes prints how many nodes Ray has.
const aliveNodes = `python -c 'import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print("nodes:", sum(n["Alive"] for n in ray.nodes()), flush=True)'`

func preparing(st launcher.Status) bool {
	return gangWaits(st) && strings.HasPrefix(st.Reason.Message, "job.prepare runs; the gang waits in queue ") && strings.Contains(st.Reason.Message, "insufficient cpu")
}

// earlyElastic: the driver begins with the head, after job.prepare; the least of an elastic group is the gang, and what the driver asks for beyond it follows.
func (b bed) earlyElastic(t *testing.T) {
	s := b.early(t, "growing", "echo weights", aliveNodes+"; "+untilGo+"; "+`exec python -c '
import ray, time
ray.init(log_to_driver=False, logging_level=40)
ray.get(ray.util.placement_group([{"w": 1}] * 2, strategy="STRICT_SPREAD").ready())
print("grown", flush=True)
while True:
    time.sleep(600)'`)
	s.Job.Start = spec.StartWithHead
	least, most := 1, 2
	w := &s.Workers[0]
	w.Replicas, w.MinReplicas, w.MaxReplicas = &least, &least, &most
	w.Resources = map[string]float64{"w": 1}
	s.Workers = s.Workers[:1]
	r := b.begin(t, b.l, s)
	r.until(t, "driving", func(st launcher.Status) bool {
		return gangWaits(st) && strings.HasPrefix(st.Reason.Message, "the driver runs; the gang waits")
	})
	r.printed(t, "==> job.prepare <==\nweights\n==> driver <==\nnodes: 1\n")
	b.widen(t, kuberayspec.Of(s).Queue)
	r.until(t, "complete", func(st launcher.Status) bool { return st.Phase == runstate.Ready })
	b.release(t, r.id)
	r.printed(t, "grown\n")
	r.until(t, "one more node", func(st launcher.Status) bool {
		a := allocation(st, runstate.PurposeElastic)
		return len(st.Allocations) == 3 && a.State == "granted" && a.Groups["w"] == 1
	})
	r.actions <- launcher.Stop
	r.ended(t)
	if u := r.outcome.Receipt.Usage; u.Nodes != 3 {
		t.Errorf("%+v", u)
	}
}

// earlyEvicted: the head is evicted while the gang waits: the next attempt has another one, which prepares again. Then `down` ends both, and job.prepare has
// the driver's grace.
func (b bed) earlyEvicted(t *testing.T) {
	s := b.early(t, "comeback", `echo prepares $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON
test $RAYCTL_ATTEMPT = 2 || exec sleep 600
`+stoppingDriver, "echo never")
	grace := units.Duration(time.Minute) // for so long the evicted head drains, though nothing runs there any more
	s.Job.Grace = &grace
	r := b.begin(t, b.l, s)
	r.until(t, "preparing", preparing)
	r.printed(t, "prepares 1 because")
	b.evict(t, "ray.io/cluster=comeback,ray.io/node-type=head")
	r.printed(t, "prepares 2 because preempted\n")
	r.until(t, "preparing again", func(st launcher.Status) bool { return st.Attempt == 2 && preparing(st) })
	for _, a := range r.status.Allocations[:2] {
		if a.State != "released" || a.Purpose == runstate.PurposeGang && a.Granted != nil {
			t.Errorf("of the first attempt: %+v", a)
		}
	}
	r.printed(t, "prepares 2 because preempted\nbegun\n")
	r.actions <- launcher.Stop
	r.printed(t, "stopping\n")
	b.release(t, r.id)
	if e, out := r.ended(t); e.Origin != "rayctl" || e.Cause != "interrupted" || e.Code != runstate.CodeInterrupted || !strings.HasSuffix(out, "\nbegun\nstopping\nsaved\n") {
		t.Errorf("%+v, output %q", e, out)
	}
	r.wantNoGang(t)
}

// earlyPrepareFails: the run ends by it, with its exit code, and the gang is not waited for.
func (b bed) earlyPrepareFails(t *testing.T) {
	s := b.early(t, "unprepared", untilGo+"; echo no such model; exit 9", "echo never")
	s.Job.Restarts.Driver = 3
	r := b.begin(t, b.l, s)
	r.until(t, "preparing", preparing)
	b.release(t, r.id)
	e, receipt := r.wantEnd(t, "prepare-failed", 9, "==> job.prepare <==\nno such model\n"), r.outcome.Receipt
	if e.Origin != "prepare" || e.Retryable || len(receipt.Attempts) != 1 || receipt.Prepare == nil || receipt.Prepare.State != runstate.JobFailed {
		t.Errorf("a failure of job.prepare is the user's, and final: %+v, %+v", e, receipt)
	}
	r.wantNoGang(t)
}

// earlyRazed: somebody deletes the RayCluster while the gang waits: head and gang end.
func (b bed) earlyRazed(t *testing.T) {
	r := b.begin(t, b.l, b.early(t, "razed", "", "echo never"))
	r.until(t, "waiting for its gang", gangWaits)
	noError(t, b.Dynamic.Resource(kubetest.RayClusters).Namespace(b.namespace).Delete(t.Context(), "razed", metav1.DeleteOptions{}))
	b.wantLost(t, r, "RayCluster was deleted")
}

// wantLost: a cluster that was deleted while its gang waited is lost, and nothing of it is left.
func (b bed) wantLost(t *testing.T, r *watchedRun, why string) {
	t.Helper()
	if e := r.wantEnd(t, "lost", runstate.CodeLost, ""); !strings.Contains(e.Message, why) {
		t.Errorf("%+v", e)
	}
	for _, a := range r.status.Allocations {
		if a.Purpose == runstate.PurposeGang && a.Granted != nil {
			t.Errorf("%+v", a)
		}
	}
	if left := b.left(t, r.id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// earlyForgotten: the same with the keeper's Job. The end comes when the kubelet has looked at the record's pod again.
func (b bed) earlyForgotten(t *testing.T) {
	r := b.begin(t, b.l, b.early(t, "forgotten", "", "echo never"))
	r.until(t, "waiting for its gang", gangWaits)
	background := metav1.DeletePropagationBackground
	noError(t, b.Core.BatchV1().Jobs(b.namespace).Delete(t.Context(), "forgotten", metav1.DeleteOptions{PropagationPolicy: &background}))
	b.wantLost(t, r, "the keeper was deleted")
}

// earlyHeadLost: the head's pod is deleted in the moment when the first worker gets its node: the next attempt has another head, and a whole gang.
func (b bed) earlyHeadLost(t *testing.T) {
	s := b.early(t, "beheaded", "", "echo attempt $RAYCTL_ATTEMPT; "+aliveNodes)
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, b.l, s)
	r.until(t, "waiting for its gang", func(st launcher.Status) bool {
		return gangWaits(st) && allocation(st, runstate.PurposeHead).State == runstate.AllocationGranted
	})
	workers, err := b.Core.CoreV1().Pods(b.namespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/cluster=beheaded,ray.io/node-type=worker"})
	if err != nil {
		t.Fatal(err)
	}
	defer workers.Stop()
	b.widen(t, kuberayspec.Of(s).Queue)
	for change := range workers.ResultChan() {
		if pod, ok := change.Object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			break
		}
	}
	b.DeletePods(t, b.namespace, "ray.io/cluster=beheaded,ray.io/node-type=head", 0)
	r.wantEnd(t, "succeeded", 0, "attempt 2\nnodes: 3\n")
}
