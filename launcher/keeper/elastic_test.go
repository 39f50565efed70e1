package keeper_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestElasticNodesLost: lost nodes are replaced as Ray asks for them, the required one, too; with the head all of them go, and the next attempt
// gets its own; and with the keeper.
func TestElasticNodesLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, hold(3), func(o *keeper.Orders) {
		elastic(1, 3)(o)
		o.Scaling.UpscalingSpeed = 10_000 // as without the key in a file
		o.Job.Restarts.NodeFailure = 1
	}).start(nil)
	r.commit(keeper.Commit{})
	extra := r.alive("w-1", 0)
	if first := more(r.state("both nodes are requested", func(s *runstate.State) bool { return len(more(s)) >= 2 })); !first[1].Queued.Before(*extra.Joined) {
		t.Errorf("not both at once: %+v, while %+v", first, extra)
	}
	r.kill(extra.PID)
	r.alive("w-1", extra.PID)
	required := r.alive("w-0", 0)
	r.kill(required.PID)
	r.alive("w-0", required.PID)
	s := r.state("two nodes were wanted", func(s *runstate.State) bool { return len(more(s)) >= 3 })
	if a := more(s)[0]; a.State != "released" || !strings.Contains(a.Message, "killed by signal 9") {
		t.Errorf("the lost node: %+v", a)
	}
	r.kill(r.pidOf("gcs_server"))
	r.state("the second attempt", func(s *runstate.State) bool { return s.Attempt == 2 && running(s) })
	extra = r.alive("w-1", 0)
	for _, a := range more(r.state("its nodes", func(*runstate.State) bool { return true }))[:3] {
		if a.Released == nil {
			t.Errorf("of the first attempt: %+v", a)
		}
	}
	r.kill(r.cmd.Process.Pid)
}

// TestElasticNodesFail: nodes that fail to start are not requested without a pause, and report the reason. With scaling.upscalingSpeed 1 one is requested at a time as
// long as none runs, although four are needed.
func TestElasticNodesFail(t *testing.T) {
	t.Parallel()
	r := newRig(t, strings.Replace(hold(4), "log_to_driver=False", "", 1), func(o *keeper.Orders) {
		elastic(0, 4)(o)
		o.Groups[1].Env = map[string]string{"NO_LICENCE": "1"}
		o.Ray.Setup = `test -z "$NO_LICENCE" || { echo "the licence server is away"; false; }`
	}).start(nil)
	r.commit(keeper.Commit{})
	// Ray's autoscaler asks every two seconds; the pauses are 5, 10 and 20 s.
	failed := func(a runstate.Allocation) bool { return strings.Contains(a.Message, "the licence server is away") }
	s := r.state("five tries, the first four of which have failed", func(s *runstate.State) bool {
		return len(more(s)) >= 5 && !slices.ContainsFunc(more(s)[:4], func(a runstate.Allocation) bool { return !failed(a) })
	})
	for i, a := range more(s)[1:] {
		if before := more(s)[i]; before.Released == nil || a.Queued.Before(*before.Released) {
			t.Errorf("two nodes at once: %+v, %+v", before, a)
		}
	}
	if pause := more(s)[4].Granted.Sub(*more(s)[2].Granted); pause.Seconds() < 10 {
		t.Errorf("%v between the second and the third try", pause)
	}
	text, err := os.ReadFile(string(r.dir) + "/keeper.log")
	r.must(err)
	if n := strings.Count(string(text), "is requested"); n > len(more(s))+1 {
		t.Errorf("%d nodes were started", n)
	}
	// Ray's autoscaler tells the driver what it asks for, and does not ask in the pauses.
	if log := r.log(); !strings.Contains(log, "Adding ") || strings.Count(log, "Adding ") > 2*len(more(s)) {
		t.Errorf("the driver's output: %s", log)
	}
}
