//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestElasticFaults disturbs one run again and again: whatever happens to its companion jobs, the driver goes on, no node is asked for twice, and at the
// end nothing is left.
func TestElasticFaults(t *testing.T) {
	pace.Parallel(t)
	// One cycle of pings waits MessageTimeout (10 s) for a node that is dark, and records the answers of the others at its end (slurmctld/agent.c,
	// ping_nodes.c): with the bed's SlurmdTimeout, which is as long, the head's node would be down, too. Sites have 300 s.
	b := start(t, slurmtest.Options{Nodes: 4, Preemption: true, Settings: map[string]string{"SlurmdTimeout": "30"}})
	e := b.disturbed(t)
	t.Run("NodesMayNotSubmit", e.nodesMayNotSubmit)
	e.begin(t)
	for _, fault := range []struct {
		name string
		test func(*testing.T)
	}{
		{"AnswerLost", e.answerLost}, {"TaskRuns", e.taskRuns}, {"Preempted", e.preempted}, {"TimeLimit", e.timeLimit}, {"Flaps", e.flaps},
		{"MaxAllocations", e.maxAllocations}, {"Unmet", e.unmet}, {"Refused", e.refused}, {"ControllerAway", e.controllerAway}, {"Expected", e.expected},
		{"NodeDies", e.nodeDies}, {"Never", e.never},
	} {
		if !t.Run(fault.name, func(t *testing.T) {
			e.t = t
			fault.test(t)
		}) {
			t.Fatal(b.story(t, "disturbed")) // the run is in a state that the next ones do not expect
		}
	}
	e.t = t
	e.downWhileQueued(t)
	b.leavesNothing(t)
}

// disturbed is a run whose driver does what the test asks for.
type disturbed struct {
	*begun
	dir    string // the driver's orders, and what the wrapper of sbatch writes
	spec   *spec.ClusterSpec
	serial int
	want   []string        // lines of the driver
	now    launcher.Status // when it was last waited for
}

// byOrders is a driver that reads "SERIAL WHAT N" from a file.
const byOrders = `import os, ray, time
ray.init(log_to_driver=False, logging_level="ERROR")
place, done, held = os.environ["PLACE"], 0, None
@ray.remote(max_retries=0)
def work(seconds):
    time.sleep(seconds)
    return "here"
def hold(group, n):
    global held
    if held is not None:
        ray.util.remove_placement_group(held)
    held = ray.util.placement_group([{group: 1}] * n, strategy="STRICT_SPREAD") if n else None
while True:
    try:
        serial, what, n = open(place + "/order").read().split()
    except (OSError, ValueError):
        serial = "0"
    if int(serial) <= done:
        time.sleep(0.1)
        continue
    done, n = int(serial), int(n)
    print("step", serial, what, n, flush=True)
    if what in ("b", "c"):
        hold(what, n)
    elif what == "task":
        hold("b", 0)
        task = work.options(num_cpus=0, resources={"b": 1}).remote(n)
        print("step", serial, ray.get(task), flush=True)
    elif what == "flap":
        for _ in range(20):
            hold("b", n)
            time.sleep(1)
            hold("b", 0)
            time.sleep(0.3)
        print("step", serial, "flapped", flush=True)
    elif what == "huge":
        task = work.options(num_cpus=n).remote(0)
        while not os.path.exists(place + "/enough"):
            time.sleep(0.1)
        ray.cancel(task)
    elif what == "drained":
        while not ray._private.state.state.get_draining_nodes():
            time.sleep(0.1)
        print("step", serial, "seen", flush=True)
    elif what == "end":
        break
`

// lossy stands before the real sbatch in PATH: it counts, where there is a file "lose" it submits and says nothing, and where there is a file "login-only" it
// refuses on compute nodes as a partition with AllocNodes does (slurm.conf(5)), to which Slurm does not hold root.
const lossy = `#!/bin/sh
if [ -e PLACE/login-only ] && [ "$(hostname)" != ctl ]; then
	echo "sbatch: error: Batch job submission failed: Access/permission denied" >&2
	exit 1
fi
real=$(PATH=${PATH#PLACE/bin:}; command -v sbatch)
case "$*" in *--test-only*) exec "$real" "$@" ;; esac
echo "$*" >> PLACE/submitted
if rm PLACE/lose 2> /dev/null; then "$real" "$@" > /dev/null; kill -9 $$; fi
exec "$real" "$@"
`

// disturbed prepares the run.
func (b *bed) disturbed(t *testing.T) *disturbed {
	t.Helper()
	e := &disturbed{dir: filepath.Join(b.Cluster.Dir, "shared", "orders")}
	wrapper := filepath.Join(e.dir, "bin", "sbatch")
	if err := errors.Join(os.MkdirAll(filepath.Dir(wrapper), 0o755), os.WriteFile(wrapper, []byte(strings.ReplaceAll(lossy, "PLACE", e.dir)), 0o755)); err != nil {
		t.Fatal(err)
	}
	b.Prefix = slices.Concat(b.Prefix, []string{"sh", "-c", `PATH="$0:$PATH"; exec "$@"`, filepath.Dir(wrapper)})
	s := b.twoGroups()
	s.Name, s.Env = "disturbed", map[string]string{"PLACE": e.dir}
	s.Job.Entrypoint = "exec python -c " + shellescape.Quote(byOrders)
	none, three, one, whole := 0, 3, 1, true
	s.Workers[0].Sections = slurmspec.GroupIn(&slurmspec.Group{Exclusive: &whole}) // the head's node is never the one that is lost
	s.Workers[1].Replicas, s.Workers[1].MinReplicas, s.Workers[1].MaxReplicas = &none, &none, &three
	third := small()
	third.Resources = map[string]float64{"c": 1}
	s.Workers = append(s.Workers, spec.WorkerGroup{Name: "c", Replicas: &none, MinReplicas: &none, MaxReplicas: &one, NodeResources: third})
	s.Scaling.Idle, s.Scaling.MaxAllocations, s.Scaling.UpscalingSpeed = units.Limit(5*time.Second), 2, 10
	s.Lifetime.Max = units.Limit(3 * time.Hour)
	e.spec, e.begun = s, &begun{bed: b}
	return e
}

// nodesMayNotSubmit: doctor finds it before anything is launched.
func (e *disturbed) nodesMayNotSubmit(t *testing.T) {
	find := func() (found launcher.Check) {
		for _, c := range e.launcher().Check(t.Context(), e.spec) {
			if strings.HasPrefix(c.Name, "jobs from node") {
				found = c
			}
		}
		return found
	}
	if c := find(); !c.OK {
		t.Errorf("where they may: %+v", c)
	}
	e.touch(t, "login-only")
	defer e.allow(t)
	if c := find(); c.Name == "" || c.OK || !strings.Contains(c.Hint, "administrators") || strings.Contains(c.Detail+c.Hint, "\n") {
		t.Errorf("where they may not: %+v", c)
	}
}

// partition changes the partition; what it returns changes it again.
func (e *disturbed) partition(t *testing.T, values ...string) func(...string) {
	t.Helper()
	set := func(values ...string) {
		if _, err := e.Slurm(context.Background(), "scontrol", append([]string{"update", "PartitionName=main"}, values...)...); err != nil {
			t.Error(err)
		}
	}
	set(values...)
	return set
}

// begin starts the run, which has no worker at the start.
func (e *disturbed) begin(t *testing.T) {
	t.Helper()
	e.begun = e.bed.begin(t, e.spec, launcher.Payload{})
	s := e.until("running", jobRuns)
	if len(s.Allocations) > 0 || len(s.Nodes) != 1 {
		t.Errorf("at the start: %+v, %+v", s.Allocations, s.Nodes)
	}
}

// order has the driver do something.
func (e *disturbed) order(t *testing.T, what string, n int, then ...string) {
	t.Helper()
	e.serial++
	e.want = append(e.want, fmt.Sprintf("step %d %s %d", e.serial, what, n))
	for _, line := range then {
		e.want = append(e.want, fmt.Sprintf("step %d %s", e.serial, line))
	}
	temporary := filepath.Join(e.dir, "order.new")
	if err := errors.Join(os.WriteFile(temporary, fmt.Appendf(nil, "%d %s %d", e.serial, what, n), 0o644), os.Rename(temporary, filepath.Join(e.dir, "order"))); err != nil {
		t.Fatal(err)
	}
}

// have waits for so many living nodes beyond the head, no more allocations than these, and returns the status.
func (e *disturbed) have(t *testing.T, n int) launcher.Status {
	t.Helper()
	s := e.until(fmt.Sprintf("of %d nodes", n), func(s launcher.Status) bool { return len(living(s)) == n && len(open(s)) == n })
	jobs, err := e.Slurm(t.Context(), "squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%j")
	if err != nil {
		t.Fatal(err)
	}
	if have := strings.Count(jobs, "-elastic-"); have != n {
		t.Errorf("%d companion jobs, not %d", have, n)
	}
	e.now = s
	return s
}

// living are the nodes beyond the head.
func living(s launcher.Status) (found []runstate.Node) {
	for _, n := range s.Nodes {
		if n.State == runstate.NodeAlive && n.Group != "a" {
			found = append(found, n)
		}
	}
	return found
}

// open are the allocations that are queued or granted.
func open(s launcher.Status) (found []runstate.Allocation) {
	for _, a := range s.Allocations {
		if a.Released == nil {
			found = append(found, a)
		}
	}
	return found
}

// job is the number of an allocation's job.
func job(a runstate.Allocation) string {
	_, number, _ := strings.Cut(a.Message, "job ")
	number, _, _ = strings.Cut(number, ":")
	return number
}

// submitted counts the submissions of companions so far.
func (e *disturbed) submitted(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, "submitted"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "-elastic-")
}

func (e *disturbed) touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// allow lets compute nodes submit again.
func (e *disturbed) allow(t *testing.T) {
	t.Helper()
	if err := os.Remove(filepath.Join(e.dir, "login-only")); err != nil {
		t.Error(err)
	}
}

// answerLost: sbatch submits and is killed. There is one job, and it is the node.
func (e *disturbed) answerLost(t *testing.T) {
	e.touch(t, "lose")
	e.order(t, "b", 1)
	e.have(t, 1)
	if n := e.submitted(t); n != 1 {
		t.Errorf("%d submissions", n)
	}
}

// replaced waits until another node has taken the place of the one that there was, and returns why that one went.
func (e *disturbed) replaced(t *testing.T, before launcher.Status) string {
	t.Helper()
	lost := open(before)[0].ID
	e.now = e.until("of one node again", func(s launcher.Status) bool {
		return len(open(s)) == 1 && open(s)[0].ID != lost && len(living(s)) == 1
	})
	for _, a := range e.now.Allocations {
		if a.ID == lost {
			return a.Message
		}
	}
	t.Fatalf("there is no %s any more", lost)
	return ""
}

// preempted: a job of higher priority takes the companion's node: another is asked for, and starts where there is room.
func (e *disturbed) preempted(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	other, err := e.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodelist="+living(before)[0].Host)
	if err != nil {
		t.Fatal(err)
	}
	if why := e.replaced(t, before); !strings.Contains(why, "its job "+job(open(before)[0])+" ended") {
		t.Errorf("why it went: %s", why)
	}
	if _, err := e.Slurm(t.Context(), "scancel", other); err != nil {
		t.Error(err)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// timeLimit: a companion whose own time is over before the cluster's is drained in time, which the driver sees, and another one takes its place.
func (e *disturbed) timeLimit(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	if _, err := e.Slurm(t.Context(), "scontrol", "update", "JobId="+job(open(before)[0]), "TimeLimit=2"); err != nil {
		t.Fatal(err)
	}
	e.order(t, "drained", 0, "seen")
	if why := e.replaced(t, before); !strings.Contains(why, "drained") {
		t.Errorf("why it went: %s", why)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// taskRuns: the task takes longer than scaling.idle, and is not repeated; then the node goes.
func (e *disturbed) taskRuns(t *testing.T) {
	e.order(t, "task", 15, "here")
	e.have(t, 0)
}

// flaps: demand that comes and goes 20 times is no reason for 20 jobs.
func (e *disturbed) flaps(t *testing.T) {
	before := e.submitted(t)
	e.order(t, "flap", 2, "flapped")
	e.until("of a node", func(s launcher.Status) bool { return len(open(s)) > 0 })
	e.have(t, 0)
	if n := e.submitted(t) - before; n > 4 {
		t.Errorf("%d jobs were submitted", n)
	}
}

// noted waits for a note in the timeline.
func (e *disturbed) noted(t *testing.T, words string) launcher.Status {
	t.Helper()
	return e.until("told "+words, func(s launcher.Status) bool { return strings.Contains(notes(s), words) })
}

// notes are what the timeline says of scaling.
func notes(s launcher.Status) (text string) {
	for _, ev := range s.Timeline {
		if ev.Kind == "scaling" {
			text += ev.Message + "\n"
		}
	}
	return text
}

// maxAllocations: there are no more jobs than the file allows, and a note says so once.
func (e *disturbed) maxAllocations(t *testing.T) {
	e.order(t, "b", 3)
	words := "group b is to have 1 more nodes, and the 2 that scaling.maxAllocations allows are there"
	e.noted(t, words)
	if s := e.have(t, 2); strings.Count(notes(s), words) != 1 {
		t.Errorf("notes: %s", notes(s))
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// unmet: demand that no group can satisfy is told in Ray's stead, and asks for nothing.
func (e *disturbed) unmet(t *testing.T) {
	before := e.submitted(t)
	e.order(t, "huge", 1000)
	e.noted(t, "tasks or actors wait for a node with CPU 1000, and no group has such nodes")
	e.touch(t, "enough")
	if n := e.submitted(t) - before; n > 0 {
		t.Errorf("%d jobs were submitted", n)
	}
}

// refused: compute nodes may not submit; when they may, the node comes.
func (e *disturbed) refused(t *testing.T) {
	e.touch(t, "login-only")
	e.order(t, "b", 1)
	e.until("told", func(s launcher.Status) bool {
		return slices.ContainsFunc(s.Timeline, func(ev runstate.Event) bool {
			return ev.Kind == "node" && strings.Contains(ev.Message, "may not submit its job") && strings.Contains(ev.Message, "`rayctl doctor`")
		})
	})
	e.allow(t)
	e.have(t, 1)
	e.order(t, "b", 0)
	e.have(t, 0)
}

// controllerAway: it is away when a node is asked for; when it is back there is one job.
func (e *disturbed) controllerAway(t *testing.T) {
	before := e.submitted(t)
	if err := e.StopController(); err != nil {
		t.Fatal(err)
	}
	e.order(t, "b", 1)
	e.Await(t, "a submission", func(context.Context) (bool, error) { return e.submitted(t) > before, nil })
	e.startController(t)
	e.have(t, 1)
	e.order(t, "b", 0)
	e.have(t, 0)
}

// expected: Slurm's plan for a companion that waits is shown while it waits.
func (e *disturbed) expected(t *testing.T) {
	other, err := e.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodes=3", "--time=20")
	if err != nil {
		t.Fatal(err)
	}
	e.AwaitJob(t, other, "RUNNING")
	e.order(t, "b", 1)
	s := e.until("planned", func(s launcher.Status) bool { return len(open(s)) == 1 && last(s).Expected != nil })
	if a := last(s); a.State != "queued" || time.Until(*a.Expected) > 21*time.Minute || time.Until(*a.Expected) < 10*time.Minute {
		t.Errorf("%+v", a)
	}
	if _, err := e.Slurm(t.Context(), "scancel", other); err != nil {
		t.Error(err)
	}
	if s := e.have(t, 1); last(s).Expected != nil {
		t.Errorf("%+v", last(s))
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// nodeDies: the companion's node is switched off; the next one is elsewhere.
func (e *disturbed) nodeDies(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	restore := e.powerOffHost(t, living(before)[0].Host)
	if why := e.replaced(t, before); why == "nothing needed it any more" || why == "" {
		t.Errorf("why it went: %s", why)
	}
	if host := living(e.now)[0].Host; host == living(before)[0].Host {
		t.Errorf("the next one is on %s, too", host)
	}
	restore()
	e.order(t, "b", 0)
	e.have(t, 0)
}

// never: what Slurm can never start is given up, said, and not asked for again.
func (e *disturbed) never(t *testing.T) {
	again := e.partition(t, "State=DOWN")
	e.order(t, "b", 1)
	e.until("queued", func(s launcher.Status) bool {
		return last(s).Released == nil && strings.Contains(last(s).Message, "PartitionDown")
	})
	again("State=UP", "MaxTime=1")
	s := e.noted(t, "group b gets no more nodes: Slurm can never start its job")
	if a := last(s); a.Released == nil || a.Granted != nil || !strings.Contains(a.Message, "PartitionTimeLimit") {
		t.Errorf("%+v", a)
	}
	before := e.submitted(t)
	e.noted(t, "a placement group waits for a node with b 1, and no group has such nodes")
	if n := e.submitted(t) - before; n > 0 {
		t.Errorf("%d jobs were submitted", n)
	}
	again("MaxTime=UNLIMITED")
}

// downWhileQueued: nothing is left, also not of what never began, and the driver's output is whole.
func (e *disturbed) downWhileQueued(t *testing.T) {
	again := e.partition(t, "State=DOWN")
	e.order(t, "c", 1)
	e.until("queued", func(s launcher.Status) bool {
		return last(s).Groups["c"] == 1 && strings.Contains(last(s).Message, "PartitionDown")
	})
	e.down(t, e.l, e.id)
	e.ended(runstate.CodeInterrupted, "down", "")
	again("State=UP")
	e.whole(t)
	e.forgotten()
}

// whole: the driver's output has all of its lines, each once.
func (e *disturbed) whole(t *testing.T) {
	t.Helper()
	var got []string
	for line := range strings.Lines(e.out.String()) {
		if strings.HasPrefix(line, "step ") { // Ray's own may stand between
			got = append(got, strings.TrimSpace(line))
		}
	}
	if !slices.Equal(got, e.want) {
		t.Errorf("output %q, want %q", got, e.want)
	}
}
