package conformance

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// grown is what the driver prints. Ray may warn in between that nothing can satisfy the placement group yet.
var grown = regexp.MustCompile(`(?s)1 at the start\n.*3 at work\n.*1 at the end\n\z`)

// elasticGroup checks that nodes come while tasks wait for them, that those go which nothing uses any more, and that the required one stays.
func elasticGroup(t *testing.T, s *suite) {
	sp := s.named(t, s.TwoGroups(), python(`import ray, time
ray.init(log_to_driver=False, logging_level="ERROR")
def nodes(): return len({n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("b")})
print(nodes(), "at the start", flush=True)
group = ray.util.placement_group([{"b": 1}] * 3, strategy="STRICT_SPREAD")
ray.get(group.ready())
print(nodes(), "at work", flush=True)
ray.util.remove_placement_group(group)
while nodes() > 1: time.sleep(0.2)
print(nodes(), "at the end", flush=True)`))
	b := &sp.Workers[1]
	least, most := 1, 3
	b.Replicas, b.MinReplicas, b.MaxReplicas = &least, &least, &most
	sp.Scaling.Idle = units.Limit(5 * time.Second)
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "succeeded", 0)
	if !grown.MatchString(out) {
		t.Errorf("output %q, want %s", out, grown)
	}
	if u := oc.Receipt.Usage; u.Nodes != 4 {
		t.Errorf("the receipt counts %d nodes at a time, not head, one worker, and two more", u.Nodes)
	}
}

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

// earlyDriver: the same, and the driver begins without the workers, if job.start is head.
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

// WarnedProgram prints when the run ends at the latest, and goes on after SIGTERM until Ray shows its own node draining, as Ray Train's controller does.
const WarnedProgram = `import os, signal, time, ray
ray.init(log_to_driver=False, logging_level=40)
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(time.time()))
print("ends", os.environ.get("RAYCTL_ENDS_AT"), os.environ.get("MLP_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"), flush=True)
draining, here = ray._private.state.state.get_draining_nodes, ray.get_runtime_context().get_node_id()
while not told or here not in draining():
    time.sleep(0.1)
print("warned of", round((draining()[here] / 1000 - told[0]) / 30) * 30, "s", flush=True)
time.sleep(2)
print("saved", flush=True)`

// warned: the end by a limit is known from the beginning, and becomes Ray's drain of the nodes beside SIGTERM.
func warned(t *testing.T, s *suite) {
	sp := s.spec(t, "exec "+python(WarnedProgram))
	sp.Lifetime.Max, sp.Job.Grace = units.Limit(90*time.Second), durationPtr(60*time.Second)
	var end time.Time
	oc, out := s.run(t, sp, launcher.RunOptions{OnStatus: func(st launcher.Status) {
		if st.Phase == runstate.Ready && st.Deadlines.Max != nil {
			end = *st.Deadlines.Max
		}
	}})
	wantExit(t, oc.Receipt.Exit, "rayctl", "max", runstate.CodeTimeLimit)
	if want := fmt.Sprintf("ends %d %[1]d\nwarned of 60 s\nsaved\n", end.Unix()); out != want {
		t.Errorf("output %q, want %q", out, want)
	}
}
