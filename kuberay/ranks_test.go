package kuberay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/test/pace"
)

// savingRank is a rank that saves on SIGTERM, which takes longer than Kubernetes needs to end a pod that nobody waits for. Its second attempt succeeds.
const savingRank = `test $RAYCTL_ATTEMPT = 1 || { echo "resumes after $RAYCTL_RESTART_REASON"; exit 0; }
trap 'sleep 3; echo saved; exit 0' TERM
echo begun
while :; do sleep 0.1; done`

// TestRanksEvicted: the pod of one rank is evicted. All ranks have the time to save, also the one in that pod, and the next attempt follows.
func TestRanksEvicted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	s := named("moved", savingRank)
	grace := units.Duration(20 * time.Second)
	s.Job.Launch, s.Job.Grace = spec.Launch{PerNode: 1}, &grace
	s.Workers = []spec.WorkerGroup{{Name: "a", NodeResources: smallNode()}, {Name: "b", NodeResources: smallNode()}}
	r := b.begin(t, b.l, s)
	r.await(t, "both ranks", func() bool { return strings.Count(r.out.String(), "begun\n") == len(s.Workers) })
	b.evict(t, "ray.io/group=b")
	e, out := r.ended(t)
	if e.Cause != runstate.CauseSucceeded || e.Code != 0 {
		t.Errorf("it ended with %+v", e)
	}
	if a := r.outcome.Receipt.Attempts; len(a) != 2 || a[0].Cause != runstate.CausePreempted || !strings.HasSuffix(a[0].Message, " ended: the node is being taken away") {
		t.Errorf("attempts: %+v", a)
	}
	for rank := range s.Workers {
		var got strings.Builder
		if _, err := driverio.NewRankOutput(&got, rank, false).Write([]byte(out)); err != nil {
			t.Fatal(err)
		}
		// Some shells say of the sleep that ends with them that it is terminated.
		if strings.Replace(got.String(), "Terminated\n", "", 1) != "begun\nsaved\nresumes after preempted\n" {
			t.Errorf("rank %d printed %q, all of it %q", rank, got.String(), out)
		}
	}
}
