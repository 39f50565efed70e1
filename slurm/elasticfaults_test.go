//go:build linux

package slurm_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"
	"k8s.io/apimachinery/pkg/api/resource"

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
		{"AnswerLost", e.answerLost}, {"TaskRuns", e.taskRuns}, {"Cancelled", e.cancelled}, {"Unwanted", e.unwanted}, {"Preempted", e.preempted}, {"TimeLimit", e.timeLimit}, {"Flaps", e.flaps},
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

// wrapSbatch puts slurmtest's wrapper before sbatch, of launchers that are made later and of their jobs, and returns the directory of the files that it looks for.
func (b *bed) wrapSbatch(t *testing.T) (dir string) {
	t.Helper()
	dir = b.WrapSbatch(t)
	b.Prefix = slices.Concat(b.Prefix, []string{"sh", "-c", `PATH="$0:$PATH"; exec "$@"`, filepath.Join(dir, "bin")})
	return dir
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
	third := small()
	third.Resources, third.Memory = map[string]float64{"c": 1}, resource.Quantity{}
	s.Workers = append(s.Workers, spec.WorkerGroup{Name: "c", Replicas: &none, MinReplicas: &none, MaxReplicas: &one, NodeResources: third})
	s.Scaling.Idle, s.Scaling.MaxAllocations, s.Scaling.UpscalingSpeed = units.Limit(5*time.Second), 2, 10
	s.Lifetime.Max = units.Limit(3 * time.Hour)
	e.spec, e.begun = s, &begun{bed: b}
	return e
}

// begin starts the run, which has no worker at the start.
func (e *disturbed) begin(t *testing.T) {
	t.Helper()
	e.begun = e.bed.begin(t, e.spec, launcher.Payload{})
	s := e.until("running", jobRuns)
	if len(open(s)) > 0 || len(s.Nodes) != 1 {
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

// open are the allocations of elastic groups that are queued or granted.
func open(s launcher.Status) (found []runstate.Allocation) {
	for _, a := range runstate.Of(s.Allocations, runstate.PurposeElastic) {
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

func (e *disturbed) touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(e.dir, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
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
