package kuberay_test

import (
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestKueue: the real Kueue, in a namespace with a queue called "default", to which it gives everything that names none: the keeper's and the record's Jobs, too.
func TestKueue(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	b.StartKueue(t, b.namespace, "default", "600m") // a cluster of two small pods, its keeper and its record
	t.Run("EarlyHead", b.kueueEarlyHead)
	t.Run("Elastic", b.kueueElastic)
	t.Run("Queued", b.kueueQueued)
	t.Run("TakenBack", b.kueueTakenBack)
}

func withWorker(s *spec.ClusterSpec) *spec.ClusterSpec {
	s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}
	return s
}

// kueueEarlyHead: Kueue holds a RayCluster until all of it is admitted, so that no head comes before the workers. doctor says so, the launch is refused, and
// nothing is left.
func (b bed) kueueEarlyHead(t *testing.T) {
	const held = "the head cannot start before the workers: a queueing system such as Kueue holds RayClusters in namespace "
	s := withWorker(job("held", "echo never"))
	s.Head.Early = true
	fails(t, findings(t, b.l, s), "pods of the cluster", held)
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodeStartFailed, held+b.namespace+" until it admits them as a whole", "leave out head.early")
	b.awaitNothing(t, "held")
}

// kueueElastic: Kueue admits no RayCluster with an autoscaler (unless its ElasticJobsViaWorkloadSlices is on).
func (b bed) kueueElastic(t *testing.T) {
	s := withWorker(job("elastic", "echo never"))
	least, most := 1, 2
	s.Workers[0].MinReplicas, s.Workers[0].MaxReplicas = &least, &most
	const said = "a kueue managed job can use autoscaling only when"
	fails(t, findings(t, b.l, s), "objects", said)
	_, err := b.l.Launch(t.Context(), s, launcher.Payload{})
	wantRefusal(t, err, runstate.CodePermission, said, "change workers[].minReplicas or kuberay.patch")
	b.awaitNothing(t, "elastic")
}

// kueueQueued: where another cluster has the quota, the next one waits with that reason, and runs once Kueue has admitted it.
func (b bed) kueueQueued(t *testing.T) {
	first := b.run(t, b.l, withWorker(job("first", waitingDriver)))
	first.printed(t, "begun\n")
	const held = "Kueue has not admitted the keeper to queue default yet"
	waits := make(chan struct{})
	saysSo := sync.OnceFunc(func() { close(waits) })
	next := b.runWith(t, b.l, withWorker(job("next", "echo admitted")), launcher.Payload{Progress: func(p launcher.Progress) {
		if strings.Contains(p.Text, held) {
			saysSo()
		}
	}})
	select {
	case <-waits:
	case <-next.done:
		t.Fatalf("it does not wait for Kueue: %v", next.err)
	}
	begun, err := b.Core.CoreV1().Events(b.namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=Job,involvedObject.name=next,reason=SuccessfulCreate"})
	if err != nil || len(begun.Items) > 0 {
		t.Errorf("a pod of a keeper that is not admitted: %v, %v", begun, err)
	}
	all, err := b.l.List(t.Context(), launcher.Selector{Whole: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range all {
		if st.Name == "next" && (st.Phase != runstate.Queued || st.Reason.Message != "Kueue has not admitted the cluster to queue default yet") {
			t.Errorf("%+v", st)
		}
	}
	b.release(t, first.id)
	first.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	next.wantEnd(t, "succeeded", 0, "admitted\n")
}

// kueueTakenBack: Kueue evicts a cluster that runs, as for one of higher priority. That is its reason, while the keeper only finds that the head is silent.
func (b bed) kueueTakenBack(t *testing.T) {
	r := b.run(t, b.l, withWorker(job("evicted", waitingDriver)))
	r.printed(t, "begun\n")
	resource, _ := schema.ParseResourceArg("workloads.v1beta2.kueue.x-k8s.io")
	workloads := b.Dynamic.Resource(*resource).Namespace(b.namespace)
	all, err := workloads.List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range all.Items {
		if strings.HasPrefix(w.GetName(), "raycluster-evicted-") {
			if _, err := workloads.Patch(t.Context(), w.GetName(), types.MergePatchType, []byte(`{"spec": {"active": false}}`), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	r.until(t, "Kueue's reason", func(st launcher.Status) bool {
		return st.Phase == runstate.Suspended && strings.HasPrefix(st.Reason.Message, "Kueue has taken the cluster back to queue default")
	})
	if e, _ := r.ended(t); e.Cause != runstate.CauseLost || !e.Retryable {
		t.Errorf("%+v", e)
	}
}
