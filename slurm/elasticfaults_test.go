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
	"sync"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
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
	b := newBed(t, slurmtest.Options{Nodes: 4, Preemption: true, Settings: map[string]string{"SlurmdTimeout": "30"}})
	e := b.disturbed(t)
	t.Run("NodesMayNotSubmit", e.nodesMayNotSubmit)
	e.begin(t)
	for _, fault := range []struct {
		name string
		test func(*testing.T)
	}{
		{"AnswerLost", e.answerLost}, {"TaskRuns", e.taskRuns}, {"Cancelled", e.cancelled}, {"Unwanted", e.unwanted}, {"Preempted", e.preempted}, {"TimeLimit", e.timeLimit}, {"Flaps", e.flaps},
		{"MaxAllocations", e.maxAllocations}, {"Unmet", e.unmet}, {"Refused", e.refused}, {"ControllerAway", e.controllerAway}, {"Expected", e.expected},
		{"NodeDies", e.nodeDies}, {"Never", e.never},
	} {
		if !t.Run(fault.name, func(t *testing.T) {
			e.t = t
			fault.test(t)
		}) {
			t.Log(b.story(t, "disturbed"))
			e.beginAgain(t)
		}
	}
	e.t = t
	e.downWhileQueued(t)
	b.leavesNothing(t)
}

// disturbed prepares the run.
func (b *bed) disturbed(t *testing.T) *disturbed {
	t.Helper()
	e := &disturbed{dir: b.wrapSbatch(t)}
	s := b.twoGroups()
	s.Name, s.Env = "disturbed", map[string]string{"PLACE": e.dir}
	s.Job.Entrypoint = "exec python -c " + shellescape.Quote(byOrders)
	none, three, one, whole := 0, 3, 1, true
	s.Workers[0].Sections = slurmspec.GroupIn(&slurmspec.Group{Exclusive: &whole}) // the head's node is never the one that is lost
	s.Workers[1].Replicas, s.Workers[1].MinReplicas, s.Workers[1].MaxReplicas = &none, &none, &three
	third := smallNode()
	third.Resources, third.Memory = map[string]float64{"c": 1}, resource.Quantity{}
	s.Workers = append(s.Workers, spec.WorkerGroup{Name: "c", Replicas: &none, MinReplicas: &none, MaxReplicas: &one, NodeResources: third})
	s.Scaling.Idle, s.Scaling.MaxAllocations, s.Scaling.UpscalingSpeed = units.Limit(5*time.Second), 2, 10
	s.Lifetime.Max = units.Limit(3 * time.Hour)
	e.spec, e.watchedRun = s, &watchedRun{bed: b}
	return e
}

// disturbed is a run whose driver does what the test asks for.
type disturbed struct {
	*watchedRun
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
        tasks = [work.options(num_cpus=n).remote(0), work.options(num_cpus=0, resources={"c": 1}, memory=n).remote(0)]
        while not os.path.exists(place + "/enough"):
            time.sleep(0.1)
        for task in tasks:
            ray.cancel(task)
    elif what == "drained":
        while not ray._private.state.state.get_draining_nodes():
            time.sleep(0.1)
        print("step", serial, "seen", flush=True)
    elif what == "end":
        break
`

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
	if c := find(); c.Name == "" || c.OK || !strings.Contains(c.Hint, "while `rayctl run`, `up` or `submit` watches") || strings.Contains(c.Detail+c.Hint, "\n") {
		t.Errorf("where they may not: %+v", c)
	}
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

// begin starts the run, which has no worker at the start.
func (e *disturbed) begin(t *testing.T) {
	t.Helper()
	e.watchedRun = e.bed.begin(t, e.spec, launcher.Payload{})
	s := e.until("running", jobRuns)
	if len(openAllocations(s)) > 0 || len(s.Nodes) != 1 {
		t.Errorf("at the start: %+v, %+v", s.Allocations, s.Nodes)
	}
}

// beginAgain ends the run and starts another one, after a subtest that has failed and left the run in a state that the next ones do not expect.
func (e *disturbed) beginAgain(t *testing.T) {
	t.Helper()
	e.t = t
	e.down(t, e.l, e.id)
	<-e.done
	for _, name := range []string{"order", "enough"} {
		if err := os.Remove(filepath.Join(e.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if _, err := e.Slurm(t.Context(), "scancel", "--user="+e.User()); err != nil { // jobs that took nodes away
		t.Error(err)
	}
	e.forgotten()
	e.serial, e.want = 0, nil
	e.begin(t)
}

// openAllocations are the allocations of elastic groups that are queued or granted.
func openAllocations(s launcher.Status) (found []runstate.Allocation) {
	for _, a := range runstate.Of(s.Allocations, runstate.PurposeElastic) {
		if a.Released == nil {
			found = append(found, a)
		}
	}
	return found
}

// answerLost: sbatch submits and is killed. There is one job, and it is the node.
func (e *disturbed) answerLost(t *testing.T) {
	before := e.submitted(t)
	e.touch(t, "lose")
	e.order(t, "b", 1)
	e.have(t, 1)
	if n := e.submitted(t) - before; n != 1 {
		t.Errorf("%d submissions", n)
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
	s := e.until(fmt.Sprintf("of %d nodes", n), func(s launcher.Status) bool { return len(living(s)) == n && len(openAllocations(s)) == n })
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

// submitted counts the submissions of companions so far.
func (e *disturbed) submitted(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(e.dir, "submitted"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(text), "-elastic-")
}

// taskRuns: the task takes longer than scaling.idle, and is not repeated; then the node goes.
func (e *disturbed) taskRuns(t *testing.T) {
	e.order(t, "task", 15, "here")
	e.have(t, 0)
}

// cancelled: somebody else cancels a companion; Ray's demand gets another one.
func (e *disturbed) cancelled(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	if _, err := e.Slurm(t.Context(), "scancel", jobNumber(openAllocations(before)[0])); err != nil {
		t.Fatal(err)
	}
	if why := e.replaced(t, before); !strings.Contains(why, "its job "+jobNumber(openAllocations(before)[0])+" ended") {
		t.Errorf("why it went: %s", why)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// replaced waits until another node has taken the place of the one that there was, and returns why that one went.
func (e *disturbed) replaced(t *testing.T, before launcher.Status) string {
	t.Helper()
	lost := openAllocations(before)[0].ID
	e.now = e.until("of one node again", func(s launcher.Status) bool {
		return len(openAllocations(s)) == 1 && openAllocations(s)[0].ID != lost && len(living(s)) == 1 && living(s)[0].Allocation == openAllocations(s)[0].ID
	})
	for _, a := range e.now.Allocations {
		if a.ID == lost {
			return a.Message
		}
	}
	t.Fatalf("there is no %s any more", lost)
	return ""
}

// unwanted: what is asked for, by demand, a changed file or by hand, and then not needed any more is not waited for.
func (e *disturbed) unwanted(t *testing.T) {
	again := e.partition(t, "State=DOWN")
	e.order(t, "b", 1)
	asked := last(e.until("queued", func(s launcher.Status) bool {
		return last(s).Released == nil && strings.Contains(last(s).Message, "PartitionDown")
	}))
	e.order(t, "b", 0)
	if a := last(e.have(t, 0)); a.ID != asked.ID || a.Granted != nil || a.Message != "nothing needed it any more" {
		t.Errorf("%+v", a)
	}
	for what, set := range map[string]func(*testing.T, int){"changed file": e.changeFile, "scale": e.scale} {
		set(t, 1)
		wanted := last(e.until("of a queued node by a "+what, func(s launcher.Status) bool {
			return len(openAllocations(s)) == 1 && last(s).ID != asked.ID && strings.Contains(last(s).Message, "PartitionDown")
		}))
		set(t, 0)
		if a := last(e.have(t, 0)); a.ID != wanted.ID || a.Granted != nil || a.Released == nil {
			t.Errorf("%s: %+v", what, a)
		}
		asked = wanted
	}
	again("State=UP")
}

// partition changes the partition; what it returns changes it again. A test that fails leaves it as it was.
func (e *disturbed) partition(t *testing.T, values ...string) func(...string) {
	t.Helper()
	set := func(values ...string) {
		if _, err := e.Slurm(context.Background(), "scontrol", append([]string{"update", "PartitionName=main"}, values...)...); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			set("State=UP", "MaxTime=UNLIMITED")
		}
	})
	set(values...)
	return set
}

// changeFile has the cluster take a file with another least of group b, as `rayctl up` does, which is the cluster's from then on.
func (e *disturbed) changeFile(t *testing.T, least int) {
	t.Helper()
	was, err := e.l.Accepted(t.Context(), e.id)
	if err != nil {
		t.Fatal(err)
	}
	now := spec.For(was, e.l.Name())
	now.Workers[1].MinReplicas, now.Workers[1].Replicas = &least, &least
	e.askKeeper(t, func(k *keeper.Client) error {
		_, err := k.Change(t.Context(), orders.Change(now))
		return err
	})
	if err := e.l.Accept(t.Context(), e.id, now); err != nil {
		t.Fatal(err)
	}
	if got, err := e.l.Accepted(t.Context(), e.id); err != nil || *got.Workers[1].MinReplicas != least {
		t.Errorf("accepted: %+v, %v", got, err)
	}
	if _, err := e.l.Launch(t.Context(), was, launcher.Payload{}); !errors.Is(err, launcher.ErrConflict) || !strings.Contains(err.Error(), "minReplicas") {
		t.Errorf("the file before: %v", err)
	}
}

func (e *disturbed) askKeeper(t *testing.T, ask func(*keeper.Client) error) {
	t.Helper()
	if err := launcher.AskKeeper(t.Context(), e.l, e.id, ask); err != nil {
		t.Fatal(err)
	}
}

// scale sets the least of group b, as `rayctl scale` does.
func (e *disturbed) scale(t *testing.T, least int) {
	t.Helper()
	e.askKeeper(t, func(k *keeper.Client) error {
		_, err := k.Scale(t.Context(), keeper.Scale{Group: "b", Min: least})
		return err
	})
}

// preempted: a job of higher priority takes the companion's node: another is asked for, and starts where there is room.
func (e *disturbed) preempted(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	other, err := e.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodelist="+living(before)[0].Host)
	if err != nil {
		t.Fatal(err)
	}
	if why := e.replaced(t, before); !strings.Contains(why, "its job "+jobNumber(openAllocations(before)[0])+" ended") {
		t.Errorf("why it went: %s", why)
	}
	if _, err := e.Slurm(t.Context(), "scancel", other); err != nil {
		t.Error(err)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// timeLimit: `rayctl extend` moves the limit of companions, too. One whose own time is over before the cluster's is drained in time, which the driver sees, and
// another one takes its place.
func (e *disturbed) timeLimit(t *testing.T) {
	e.order(t, "b", 1)
	before := e.have(t, 1)
	e.extended(t, jobNumber(openAllocations(before)[0]))
	if _, err := e.Slurm(t.Context(), "scontrol", "update", "JobId="+jobNumber(openAllocations(before)[0]), "TimeLimit=2"); err != nil {
		t.Fatal(err)
	}
	e.order(t, "drained", 0, "seen")
	if why := e.replaced(t, before); !strings.Contains(why, "drained") {
		t.Errorf("why it went: %s", why)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// extended has the cluster end later, and with it a companion.
func (e *disturbed) extended(t *testing.T, number string) {
	t.Helper()
	limit := func() string {
		out, err := e.Slurm(t.Context(), "squeue", "--noheader", "--jobs="+number, "--format=%l")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	if before := limit(); !strings.HasPrefix(before, "2:5") && !strings.HasPrefix(before, "3:0") {
		t.Errorf("its limit is %s, and the cluster's 3 hours", before)
	}
	late := time.Now().Add(5 * time.Hour)
	if err := e.l.Extended(t.Context(), e.id, runstate.Deadlines{Max: &late}); err != nil {
		t.Error(err)
	}
	if after := limit(); !strings.HasPrefix(after, "5:0") {
		t.Errorf("its limit is %s after an extension to 5 hours", after)
	}
}

// flaps: demand that comes and goes 20 times is no reason for 20 jobs.
func (e *disturbed) flaps(t *testing.T) {
	before := e.submitted(t)
	e.order(t, "flap", 2, "flapped")
	e.until("of a node", func(s launcher.Status) bool { return len(openAllocations(s)) > 0 })
	e.have(t, 0)
	if n := e.submitted(t) - before; n > 4 {
		t.Errorf("%d jobs were submitted", n)
	}
}

// maxAllocations: there are no more nodes than the file allows, and a note reports that once. Those that are requested at once are one job array, and go one by one.
func (e *disturbed) maxAllocations(t *testing.T) {
	submitted := e.submitted(t)
	e.order(t, "b", 3)
	words := "group b needs 1 more nodes, but the cluster already has the 2 that scaling.maxAllocations allows"
	e.noted(t, words)
	if s := e.have(t, 2); strings.Count(notes(s), words) != 1 {
		t.Errorf("notes: %s", notes(s))
	}
	array := e.array(t)
	if n := e.submitted(t) - submitted; n != 1 {
		t.Errorf("%d submissions for nodes that were asked for at once", n)
	}
	e.order(t, "b", 1)
	if left := jobNumber(openAllocations(e.have(t, 1))[0]); !strings.HasPrefix(left, array+"_") {
		t.Errorf("job %s is left of array %s", left, array)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// noted waits for a note in the timeline.
func (e *disturbed) noted(t *testing.T, words string) launcher.Status {
	t.Helper()
	return e.until("told "+words, func(s launcher.Status) bool { return strings.Contains(notes(s), words) })
}

// notes are the timeline's messages about scaling.
func notes(s launcher.Status) (text string) {
	for _, ev := range s.Timeline {
		if ev.Kind == "scaling" {
			text += ev.Message + "\n"
		}
	}
	return text
}

// array is the number of the one job array that all nodes are elements of; an element's index is its node's.
func (e *disturbed) array(t *testing.T) (number string) {
	t.Helper()
	for _, a := range openAllocations(e.now) {
		name, _, _ := strings.Cut(a.ID, ".")
		id, index, _ := strings.Cut(jobNumber(a), "_")
		if number == "" {
			number = id
		}
		if id != number || name != "b-"+index {
			t.Errorf("%s is job %s, and another one is of array %s", name, jobNumber(a), number)
		}
	}
	return number
}

// unmet: the keeper notes demand that no group can satisfy, and requests nothing for it.
func (e *disturbed) unmet(t *testing.T) {
	before := e.submitted(t)
	e.order(t, "huge", 1000)
	e.until("both told", func(s launcher.Status) bool {
		return strings.Contains(notes(s), "tasks or actors wait for a node with 1000 CPUs, and no group has such nodes") &&
			strings.Contains(notes(s), "but the memory of group c is not known before its first node: set the group's memory in the cluster file")
	})
	e.touch(t, "enough")
	if n := e.submitted(t) - before; n > 0 {
		t.Errorf("%d jobs were submitted", n)
	}
}

// refused: compute nodes may not submit; the client that watches does it once for all nodes that are asked for at once, and the timeline notes that they need one.
func (e *disturbed) refused(t *testing.T) {
	e.touch(t, "login-only")
	defer e.allow(t)
	submitted := e.submitted(t)
	e.order(t, "b", 2)
	s := e.have(t, 2)
	if words := "compute nodes may not submit jobs: more nodes come while `rayctl run`, `up` or `submit` watches"; strings.Count(notes(s), words) != 1 {
		t.Errorf("notes: %s", notes(s))
	}
	e.array(t)
	if n := e.submitted(t) - submitted; n != 1 {
		t.Errorf("%d submissions", n)
	}
	e.order(t, "b", 0)
	e.have(t, 0)
}

// controllerAway: it is away when a node is asked for; when it is back there is one job.
func (e *disturbed) controllerAway(t *testing.T) {
	before := e.submitted(t)
	if err := e.StopController(); err != nil {
		t.Fatal(err)
	}
	back := sync.OnceFunc(func() { e.startController(t) })
	defer back()
	e.order(t, "b", 1)
	e.Await(t, "a submission", func(context.Context) (bool, error) { return e.submitted(t) > before, nil })
	back()
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
	s := e.until("planned", func(s launcher.Status) bool { return len(openAllocations(s)) == 1 && last(s).Expected != nil })
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
	restore := sync.OnceFunc(e.powerOffHost(t, living(before)[0].Host))
	defer restore()
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

// never: nodes that Slurm can never start are given up, reported, and not requested again until somebody sets the group's size.
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
	e.noted(t, "a placement group waits for a node with 1 b, and no group has such nodes")
	if n := e.submitted(t) - before; n > 0 {
		t.Errorf("%d jobs were submitted", n)
	}
	again("MaxTime=UNLIMITED")
	e.scale(t, 1) // asks for them again
	e.have(t, 1)
	e.scale(t, 0)
	e.order(t, "b", 0)
	e.have(t, 0)
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
