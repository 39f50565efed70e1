package conformance

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// counting is a driver that prints how many nodes Ray has, and again whenever there are more, until all are there.
var counting = python(`import ray, time
ray.init(log_to_driver=False, logging_level="ERROR")
seen = 0
while seen < 3:
    there = sum(n["Alive"] for n in ray.nodes())
    if there in (1, 3) and there != seen:
        print("nodes:", there, flush=True)
        seen = there
    time.sleep(0.2)`)

// earlyHead checks that job.prepare runs while the workers are not there, and that the driver begins when all are.
func earlyHead(t *testing.T, s *suite) { s.early(t, "", "nodes: 3\n") }

// earlyDriver: the same, and the driver begins without the workers, where job.start says so.
func earlyDriver(t *testing.T, s *suite) { s.early(t, spec.StartWithHead, "nodes: 1\nnodes: 3\n") }

func (s *suite) early(t *testing.T, start, printed string) {
	sp := s.named(t, s.TwoGroups(), counting)
	sp.Head = spec.Head{Early: true, NodeResources: s.Spec().Head.NodeResources}
	sp.Job.Prepare, sp.Job.Start = "echo weights", start
	release := s.HoldWorkers(t, sp)
	defer release() // also where it fails
	id := s.launch(t, sp)
	st := s.until(t, id, "prepared", func(st launcher.Status) bool {
		return st.Job.Prepares() && st.Job.Prepare.State == runstate.JobSucceeded && (start == "" || strings.HasPrefix(st.Reason.Message, "the driver runs; "))
	})
	if !slices.Contains([]runstate.Phase{runstate.Queued, runstate.Starting}, st.Phase) || start == "" && st.Job.State != runstate.JobWaiting {
		t.Errorf("without its workers it is %s", mustJSON(t, st))
	}
	if start != "" && !s.printed(t, id, "nodes: 1\n") {
		t.Error("the driver does not run")
	}
	release()
	r := s.untilGone(t, id)
	wantExit(t, *r.Exit, "driver", "succeeded", 0)
	if want, out := preparing+"weights\n"+driving+printed, s.shown(t, id); out != want {
		t.Errorf("output %q, want %q", out, want)
	}
	if u := launcher.NewReceipt(r).Usage; u.Nodes != 3 {
		t.Errorf("the receipt counts %d nodes", u.Nodes)
	}
}
