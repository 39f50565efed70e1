package kuberay_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	testbed "github.com/rayctl/rayctl/test/kubetest/bed"
)

// The tests of this file break what all clusters share, so they run alone.

// TestAPIServerRestarted takes the API server away while a run is queued, one runs and one ends. The client of the one that runs follows it without port-forward.
func TestAPIServerRestarted(t *testing.T) {
	b := newBed(t)
	greedy := job("queued", "echo never")
	greedy.Head.GPUs = 100
	stops := job("ending", stoppingDriver)
	grace := units.Duration(patience)
	stops.Job.Grace = &grace
	proxied := b.limited(t, reachingBy(t, proxyOnly))
	queued, runs, ends := b.run(t, b.l, greedy), b.run(t, proxied, job("runs", waitingDriver)), b.run(t, b.l, stops)
	queued.until(t, "a reason to wait", func(st launcher.Status) bool { return st.Phase == runstate.Queued && st.Reason.Code != "" })
	runs.printed(t, "begun\n")
	ends.printed(t, "begun\n")
	ends.actions <- launcher.Stop
	ends.printed(t, "stopping\n")

	b.StopAPIServer(t)
	for _, r := range []*running{queued, runs, ends} {
		r.until(t, "word of the outage", func(st launcher.Status) bool { return st.Unreachable != "" })
	}
	b.StartAPIServer(t)

	b.release(t, runs.id)
	b.release(t, ends.id)
	queued.actions <- launcher.Stop
	runs.wantEnd(t, "succeeded", 0, "begun\ndone\n")
	ends.wantEnd(t, "interrupted", runstate.CodeInterrupted, "begun\nstopping\nsaved\n")
	queued.wantEnd(t, "interrupted", runstate.CodeInterrupted, "")
}

// TestOperatorStopped: without KubeRay's operator a running cluster goes on and ends; the reason of a new one is that no operator makes its pods.
func TestOperatorStopped(t *testing.T) {
	b := newBed(t)
	runs := b.run(t, b.l, job("runs", waitingDriver))
	runs.printed(t, "begun\n")
	b.StopOperator(t)
	silent := b.run(t, b.l, job("silent", "echo never"))
	silent.until(t, "word of the silent operator", func(st launcher.Status) bool { return st.Reason.Code == "OperatorSilent" })
	silent.actions <- launcher.Stop
	silent.wantEnd(t, "interrupted", runstate.CodeInterrupted, "")
	b.release(t, runs.id)
	runs.wantEnd(t, "succeeded", 0, "begun\ndone\n")
}

// TestVolcanoStopped: the reason of a gang that is not admitted names Volcano, and the gang starts when Volcano is back.
func TestVolcanoStopped(t *testing.T) {
	b := newBed(t)
	b.StopVolcano(t)
	waits := b.run(t, b.l, job("waits", "echo at last"))
	waits.until(t, "word of Volcano's silence", func(st launcher.Status) bool { return st.Reason.Code == "PodGroupIgnored" })
	b.StartVolcano(t)
	waits.wantEnd(t, "succeeded", 0, "at last\n")
}

// TestNodeLost: heads, keepers and records vanish at once. When there is room again no driver runs twice.
func TestNodeLost(t *testing.T) {
	o := options()
	o.Simulated = testbed.Simulated{Nodes: 1, CPUs: 1} // Kubernetes evicts nothing while all of its nodes are lost
	b := bedWith(t, o)
	conformance.NodeLost(t, b.conformance(), func(t *testing.T, ids []launcher.ID) (back func()) {
		for _, id := range ids[1:] { // the first has no driver yet
			b.awaitNote(t, id)
		}
		b.LoseNode(t)
		for _, id := range ids {
			b.awaitEviction(t, id)
		}
		b.RestoreNode(t)
		return nil
	})
}

func (b bed) awaitEviction(t *testing.T, id launcher.ID) {
	t.Helper()
	statuses, err := b.l.Watch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	for st := range statuses {
		if st.Reason.Code == "DeletionByTaintManager" {
			return
		}
	}
	t.Fatalf("%s was never evicted", id)
}
