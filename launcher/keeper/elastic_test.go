package keeper_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// elastic is a cluster of a head without CPUs and a group of so many nodes at least and at most.
func elastic(least, most int) func(*keeper.Orders) {
	return func(o *keeper.Orders) {
		o.Launcher = "local" // what the head has of memory, further nodes have, too
		o.Groups[0].CPUs = ptr(0.0)
		o.Groups = append(o.Groups, keeper.Group{
			Name: "w", Count: least, Max: most, CPUs: ptr(1.0), GPUs: ptr(0.0), ObjectStoreMemory: ptr(int64(100e6)),
		})
		o.Scaling = &keeper.Scaling{Idle: 600, UpscalingSpeed: 1}
	}
}

// more are the allocations of nodes above the required ones.
func more(s *runstate.State) []runstate.Allocation {
	return runstate.Of(s.Allocations, runstate.PurposeElastic)
}

// holdTwo is a driver that holds two nodes of one CPU as long as it runs. Its actors ask for memory, too, which the group leaves to Ray.
var holdTwo = hold(2)

func hold(nodes int) string {
	return `python -c '
import ray, time
ray.init(log_to_driver=False)
@ray.remote(num_cpus=1, memory=1 << 20, max_restarts=-1)
class Holder:
    def here(self): return True
holders = [Holder.remote() for _ in range(` + strconv.Itoa(nodes) + `)]
time.sleep(100000)'`
}

// alive waits until a node is alive in Ray that is started by another supervisor than this one.
func (r *rig) alive(name string, other int) runstate.Node {
	r.t.Helper()
	var found runstate.Node
	r.state(name+" is alive", func(s *runstate.State) bool {
		for _, n := range s.Nodes {
			if n.Name == name && n.State == runstate.NodeAlive && n.PID != 0 && n.PID != other {
				found = n
			}
		}
		return found.Name != ""
	})
	return found
}

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

// TestScale: a user sets how many nodes there are at least and at most, within what the cluster was launched with; none goes while it is used.
func TestScale(t *testing.T) {
	t.Parallel()
	r := newRig(t, holdTwo, func(o *keeper.Orders) {
		elastic(1, 4)(o)
		o.Scaling.Idle = 3
	}).start(nil)
	r.commit(keeper.Commit{})
	r.state("the driver runs", running)
	held := r.alive("w-1", 0) // with w-0
	groups := func() []runstate.Group {
		return r.state("its groups", func(*runstate.State) bool { return true }).Groups
	}
	for wish, words := range map[keeper.Scale]string{
		{Group: "x", Min: 1}: "there is no group x; there is head, w", {Group: "head", Min: 1}: "group head is not elastic",
		{Group: "w", Min: 0}: "group w can have 1 to 4 nodes, and not 0", {Group: "w", Min: 5}: "group w can have 1 to 4 nodes, and not 5",
		{Group: "w", Min: 1, Max: ptr(9)}: "the maximum of group w can be 1 to 4 nodes, and not 9",
	} {
		if _, err := r.client().Scale(t.Context(), wish); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v", wish, err)
		}
	}
	if _, err := r.client().Scale(t.Context(), keeper.Scale{Group: "w", Min: 4}, keeper.Scale{Group: "x", Min: 1}); err == nil || groups()[1].Min != 1 {
		t.Errorf("one of two sizes that cannot both be had: %v, %+v", err, groups())
	}
	if offer, over, err := r.client().TakeOffer(t.Context(), keeper.OfferReport{}); offer != nil || over || err != nil { // these nodes need no jobs
		t.Errorf("an offer: %+v, %t, %v", offer, over, err)
	}
	_, err := r.client().Scale(t.Context(), keeper.Scale{Group: "w", Min: 3})
	r.must(err)
	third := r.alive("w-2", 0)
	s, err := r.client().Scale(t.Context(), keeper.Scale{Group: "w", Min: 1, Max: ptr(1)})
	r.must(err)
	if g := s.Groups[1]; g.Min != 1 || g.Max != 1 {
		t.Errorf("%+v", g)
	}
	s = r.state("the third node is given up", func(s *runstate.State) bool { return more(s)[len(more(s))-1].Released != nil })
	if a := more(s)[len(more(s))-1]; !strings.HasPrefix(a.ID, third.Name) || a.Message != "nothing needed it any more" {
		t.Errorf("%+v", a)
	}
	if now := r.alive("w-1", 0); now.PID != held.PID || running(s) == false {
		t.Errorf("the node that the driver uses: %+v, before: %+v", now, held)
	}
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
