package conformance

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

func itoa(i int) string { return strconv.Itoa(i) }

// oneName launches the same spec many times at once: one cluster, one driver. It is of a head group and a different second one: the driver starts when all
// nodes are there, and reaches each node.
func oneName(t *testing.T, s *suite) {
	sp := s.named(t, s.TwoGroups(), python(`import ray, time
ray.init(log_to_driver=False, logging_level="ERROR")
print(len([n for n in ray.nodes() if n["Alive"]]), "nodes at the start")
@ray.remote(resources={"b": 1}, num_cpus=0)
def where(): return ray.get_runtime_context().get_node_id()
print("on the other node:", ray.get(where.remote()) != ray.get_runtime_context().get_node_id(), flush=True)
time.sleep(12)`)) // longer than a further launch takes on a busy machine
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = s.l.Launch(s.context(t), sp, payloadOf(sp))
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("launches of one name: %v", err)
	}
	oc, out := s.run(t, sp, launcher.RunOptions{}) // a further launch attaches
	wantExit(t, oc.Receipt.Exit, "driver", "succeeded", 0)
	if !strings.HasSuffix(out, "2 nodes at the start\non the other node: True\n") || strings.Count(out, "nodes at the start") != 1 {
		t.Errorf("output %q: the driver did not run exactly once, with all nodes", out)
	}
	if oc.Receipt.Usage.Nodes != 2 {
		t.Errorf("the receipt counts %d nodes", oc.Receipt.Usage.Nodes)
	}
}

// conflict: a name stands for one spec while its cluster lives.
func (s *suite) conflict(t *testing.T, id launcher.ID, sp *spec.ClusterSpec, payload func(*spec.ClusterSpec) launcher.Payload) {
	other := s.GPUNodes()
	other.Name, other.Job.Entrypoint, other.Lifetime.Max = sp.Name, "echo other", sp.Lifetime.Max
	s.carry(other)
	_, err := s.l.Launch(s.context(t), other, payloadOf(other))
	wantCode(t, err, runstate.CodeSpec, launcher.ErrConflict)
	if err != nil && !strings.Contains(err.Error(), "entrypoint") {
		t.Errorf("the difference is not told: %v", err)
	}
	s.changed(t, id, sp, payload)
}

// changed has a living cluster take a file with another lifetime.max: from then on that one is the same cluster, and the first is not, also while only the
// keeper has it, because its client died. The first one takes it back.
func (s *suite) changed(t *testing.T, id launcher.ID, sp *spec.ClusterSpec, payload func(*spec.ClusterSpec) launcher.Payload) {
	s.untilRunning(t, id)
	first, second := spec.For(sp, s.l.Name()), spec.For(sp, s.l.Name())
	second.Lifetime.Max += units.Limit(time.Hour)
	for _, now := range []*spec.ClusterSpec{second, first} {
		was := first
		if now == first {
			was = second
		}
		if _, err := s.l.Launch(s.context(t), now, payload(now)); !errors.Is(err, launcher.ErrConflict) {
			t.Errorf("before the change: %v", err)
		}
		err := launcher.AskKeeper(s.context(t), s.l, id, func(k *keeper.Client) error {
			st, err := k.Change(s.context(t), orders.Change(now))
			if err == nil && st.SpecHash != spec.Hash(now) {
				t.Errorf("the keeper has %s", st.SpecHash)
			}
			return err
		})
		if err != nil {
			t.Fatalf("change: %v", err)
		}
		if _, err := s.l.Launch(s.context(t), was, payload(was)); !errors.Is(err, launcher.ErrConflict) {
			t.Errorf("the file before, while only the keeper has the new one: %v", err)
		}
		if err := s.l.Accept(s.context(t), id, now); err != nil {
			t.Fatalf("accept: %v", err)
		}
		if _, err := s.l.Launch(s.context(t), now, payload(now)); err != nil {
			t.Errorf("the changed file is another spec: %v", err)
		}
		if got, err := s.l.Accepted(s.context(t), id); err != nil || len(spec.Diff(got, now)) > 0 {
			t.Errorf("accepted: %v, %v", spec.Diff(got, now), err)
		}
	}
}

func (s *suite) terminateNow(t *testing.T, id launcher.ID) {
	t.Helper()
	if err := s.l.Terminate(s.context(t), id, launcher.End{Cause: "down", Message: "ended by the test", Now: true}); err != nil {
		t.Errorf("terminate: %v", err)
	}
}

// sideBySide runs two clusters at once: each sees only its own nodes. One of them runs with ray.fastStart: false, which status and receipt report. Tasks and actors of the one
// run in the directory of its driver; that of the other is on none of its nodes, which driver and task say once each.
func sideBySide(t *testing.T, s *suite) {
	fast := s.spec(t, python(`import os, ray
ray.init(log_to_driver=False, logging_level="ERROR")
@ray.remote
def task(): return os.getcwd()
@ray.remote
class Actor:
    def where(self): return os.getcwd()
print(os.getcwd(), ray.get(task.remote()), ray.get(task.options(runtime_env={"env_vars": {"A": "b"}}).remote()), ray.get(Actor.remote().where.remote()))
print(os.environ["RAYCTL_RUN"], len(ray.nodes()), flush=True)`))
	plain := s.named(t, s.TwoGroups(), python(`import os, ray, sys, threading
class Shown:
    told = threading.Event()
    def write(self, text):
        sys.__stderr__.write(text)
        if "rayctl: the directory" in text: self.told.set()
    def __getattr__(self, name): return getattr(sys.__stderr__, name)
sys.stderr = Shown()
ray.init(logging_level="ERROR")
@ray.remote(resources={"b": 0.5}, num_cpus=0)
def where(): return os.getcwd()
away = ray.get([where.remote() for _ in range(4)])
assert Shown.told.wait(120)
print("tasks in", *set(away))
print(os.environ["RAYCTL_RUN"], len(ray.nodes()), flush=True)`))
	fast.Job.WorkingDir, fast.Job.Cwd = "", "/usr/lib"
	plain.Job.WorkingDir, plain.Job.Cwd, plain.Job.CwdOptional = "", "/no/such it's $HOME", true
	plain.Ray.FastStart = new(bool)
	var ids []launcher.ID
	var shown []func() string
	for _, sp := range []*spec.ClusterSpec{fast, plain} {
		id := s.launch(t, sp)
		ids, shown = append(ids, id), append(shown, s.following(t, id))
	}
	for i, id := range ids {
		out, r := shown[i](), s.untilGone(t, id)
		wantExit(t, *r.Exit, "driver", "succeeded", 0)
		if !strings.HasSuffix(out, fmt.Sprintf("%s %d\n", id, i+1)) {
			t.Errorf("output %q", out)
		}
		for text, times := range [2]map[string]int{
			{"/usr/lib /usr/lib /usr/lib /usr/lib\n": 1},
			{"rayctl: the directory /no/such it's $HOME, in which rayctl was called, does not exist here": 1, "rayctl: the directory /no/such it's $HOME, in which the job runs, does not exist on this node": 1},
		}[i] {
			if strings.Count(out, text) != times {
				t.Errorf("%q is not %d times in the output %q", text, times, out)
			}
		}
		if plain := i == 1 || s.plain; launcher.NewReceipt(r).FastStart == plain {
			t.Errorf("how Ray started: %+v", r.Head)
		}
	}
}

// terminated checks what is left of a cluster that Terminate has ended.
func (s *suite) terminated(t *testing.T, id launcher.ID) {
	r := s.untilGone(t, id)
	wantExit(t, *r.Exit, "rayctl", "down", runstate.CodeInterrupted)
	s.terminateNow(t, id) // once more: no error
	if err := s.l.Forget(s.context(t), id); err != nil {
		t.Errorf("forget: %v", err)
	}
	_, err := s.l.Result(s.context(t), id)
	wantCode(t, err, runstate.CodeSpec, launcher.ErrNotFound)
}

func unknownCluster(t *testing.T, s *suite) {
	ctx := s.context(t)
	id := launcher.ID("c-nobody-" + randomHex(3))
	if err := s.l.Terminate(ctx, id, launcher.End{Cause: "down"}); err != nil {
		t.Errorf("terminate of an unknown cluster: %v", err)
	}
	_, err := s.l.Watch(ctx, id)
	wantCode(t, err, runstate.CodeSpec, launcher.ErrNotFound)
	_, err = s.l.Result(ctx, id)
	wantCode(t, err, runstate.CodeSpec, launcher.ErrNotFound)
	_, err = s.l.Dial(ctx, id, launcher.Dashboard)
	wantCode(t, err, runstate.CodeSpec, launcher.ErrNotFound)
}

// submit sends a job through the dashboard, as `rayctl submit` does.
func (s *suite) submit(t *testing.T, id launcher.ID, entrypoint string) string {
	t.Helper()
	job, err := submitJob(s.context(t), s.l, id, entrypoint)
	if err != nil {
		t.Fatalf("submit: %v", err)
	}
	return job
}

func submitJob(ctx context.Context, l launcher.Launcher, id launcher.ID, entrypoint string) (string, error) {
	e, err := l.Dial(ctx, id, launcher.Dashboard)
	if err != nil {
		return "", err
	}
	defer e.Close()
	c, err := launcher.DashboardClient(e, nil)
	if err != nil {
		return "", err
	}
	return c.SubmitJob(ctx, dashboardclient.SubmitRequest{Entrypoint: entrypoint})
}
