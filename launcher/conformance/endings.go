package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// exitZero checks a run that succeeds: what the driver gets, that all its output arrives although it truncates its log, exit code, receipt, record, and that nothing
// stays allocated.
func exitZero(t *testing.T, s *suite) {
	sp := s.spec(t, "")
	get := hostile(sp)
	const truncating = "echo warn > /dev/stderr; : > /dev/stdout; : > /proc/self/fd/2; " // truncates the log of a driver whose output is no pipe
	sp.Job.Entrypoint = "echo hello from $RAYCTL_RUN attempt $RAYCTL_ATTEMPT; " + get.program + "; " + truncating + python(outputProgram)
	var phases []runstate.Phase
	oc, out := s.run(t, sp, launcher.RunOptions{OnStatus: func(st launcher.Status) {
		if st.Phase == runstate.Ready {
			wantHeld(t, st)
		}
		if len(phases) == 0 || phases[len(phases)-1] != st.Phase {
			phases = append(phases, st.Phase)
		}
	}})
	for what, text := range map[string]string{"shown live": out, "saved": string(s.savedLog(t, oc.ID))} {
		hello, rest, _ := strings.Cut(text, "\n")
		if want := "hello from " + sp.Name + " attempt 1"; hello != want {
			t.Errorf("%s: %q, want %q", what, short([]byte(hello)), want)
		}
		got, rest, _ := strings.Cut(rest, "\n")
		get.check(t, got)
		warn, rest, _ := strings.Cut(rest, "\n")
		if warn != "warn" {
			t.Errorf("%s: %q where the driver wrote to /dev/stderr", what, short([]byte(warn)))
		}
		sameBytes(t, what, []byte(rest))
	}
	wantExit(t, oc.Receipt.Exit, "driver", "succeeded", 0)
	if left := s.Allocated(t, oc.ID); len(left) > 0 {
		t.Errorf("allocated after Run returned: %s", strings.Join(left, ", "))
	}
	if phases[len(phases)-1] != runstate.Gone {
		t.Errorf("phases %v do not end with Gone", phases)
	}
	rc := oc.Receipt
	if rc.Durations.Driver <= 0 || rc.Durations.Starting <= 0 || rc.Usage.NodeSeconds < rc.Usage.BusyNodeSeconds || rc.Usage.BusyNodeSeconds <= 0 {
		t.Errorf("the receipt does not account for the run: %s", mustJSON(t, rc))
	}
	if a := rc.Allocations; len(a) != 1 || a[0].Purpose != runstate.PurposeMain || a[0].Granted == nil || a[0].Released == nil || a[0].Released.Before(*a[0].Granted) {
		t.Errorf("one allocation, and it is released: %s", mustJSON(t, a))
	}
	// The record outlives the cluster. A repeated launch finds the record and starts nothing.
	r, err := s.l.Result(s.context(t), oc.ID)
	if err != nil || r.Exit.Code != 0 {
		t.Errorf("result after the end: %v, %v", r, err)
	}
	_, err = s.l.Launch(s.context(t), sp, payloadOf(sp))
	wantCode(t, err, runstate.CodeSpec, launcher.ErrEnded)
}

// wantHeld checks that all required nodes are one granted allocation's.
func wantHeld(t *testing.T, st launcher.Status) {
	t.Helper()
	if len(st.Allocations) != 1 || st.Allocations[0].State != runstate.AllocationGranted {
		t.Errorf("the allocations of a cluster that is ready: %s", mustJSON(t, st.Allocations))
		return
	}
	held := 0
	for _, n := range st.Groups {
		held += n.Required() - st.Allocations[0].Groups[n.Name]
	}
	for _, n := range st.Nodes {
		if n.State == runstate.NodeAlive && (n.Allocation != st.Allocations[0].ID || n.Joined == nil || n.Left != nil) {
			t.Errorf("a node that no allocation holds: %s", mustJSON(t, n))
		}
	}
	if held != 0 {
		t.Errorf("the allocation %s is not of the groups %s", mustJSON(t, st.Allocations[0]), mustJSON(t, st.Groups))
	}
}

// noRuntimeEnv: the driver never runs, so Ray has no log of it and the saved log holds Ray's error message. The package is missing in Ray's store, which
// Ray reports within seconds and in the same way as a package that pip cannot install.
func noRuntimeEnv(t *testing.T, s *suite) {
	sp := s.spec(t, "echo never")
	p := payloadOf(sp)
	p.Packages = func(context.Context) (*launcher.Packages, error) {
		return &launcher.Packages{RuntimeEnv: map[string]any{"working_dir": "gcs://_ray_pkg_0123456789abcdef.zip"}}, nil
	}
	oc, out := s.runWith(t, sp, p, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "rayctl", "submit-failed", runstate.CodeStartFailed)
	saved := string(s.savedLog(t, oc.ID))
	for _, want := range []string{"Traceback (most recent call last)", "_ray_pkg_0123456789abcdef"} {
		if !strings.Contains(saved, want) {
			t.Errorf("no %q in the saved log: %q", want, saved)
		}
	}
	if out != saved {
		t.Errorf("shown: %q\nsaved: %q", out, saved)
	}
}

// idle checks that an idle cluster without a job of its own ends, that a job, which knows the cluster's name and output directory, postpones this, and that its record has the jobs. The limit is short only once the job is submitted: on a
// busy machine that can take longer than the limit.
func idle(t *testing.T, s *suite) {
	sp := s.spec(t, "")
	sp.Lifetime.Idle = units.Limit(backstop)
	most := resource.MustParse("64Ki")
	sp.Lifetime.KeepOutput = &most
	id := s.launch(t, sp)
	s.until(t, id, "ready", func(st launcher.Status) bool { return st.Phase == runstate.Ready })
	long := s.submit(t, id, longOutput)
	job := s.submit(t, id, `test "$RAYCTL_RUN" = `+sp.Name+` && echo result > "$RAYCTL_OUTPUT_DIR/result" && echo kept && exec sleep 8`)
	short := 3.0
	s.extend(t, id, keeper.Extend{Idle: &short})
	r := s.untilGone(t, id)
	wantExit(t, *r.Exit, "rayctl", "idle", 0)
	ready := r.Since
	for _, e := range r.Timeline {
		if e.Kind == "phase" && e.To == string(runstate.Ready) {
			ready = e.At
		}
	}
	if lived := r.Since.Sub(ready); lived < 8*time.Second {
		t.Errorf("the cluster ended %s after it was ready, while a job of 8 s ran", lived)
	}
	if e := r.EndedSubmissions; e == nil || e.Succeeded != 1 || e.Count != 2 {
		t.Errorf("the job has not got the cluster's name and a place for its results: %s", mustJSON(t, e))
	}
	s.keepsJobs(t, r, job, long, most.Value())
}

// extend gives a cluster that lives other limits.
func (s *suite) extend(t *testing.T, id launcher.ID, limits keeper.Extend) {
	t.Helper()
	err := launcher.AskKeeper(s.context(t), s.l, id, func(k *keeper.Client) error {
		_, err := k.Extend(s.context(t), limits)
		return err
	})
	if err != nil {
		t.Fatalf("extend: %v", err)
	}
}

func queueLimit(t *testing.T, s *suite) {
	release := s.Occupy(t)
	defer release()
	sp := s.spec(t, "echo never")
	sp.Lifetime.Queue = units.Limit(5 * time.Second)
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "rayctl", "queue", runstate.CodeQueueTimeout)
	if out != "" {
		t.Errorf("a driver ran: %q", out)
	}
}

// driverRestarts: drivers fail in each way, by an exit code, because there is no such program, and by a signal; each but the last is restarted.
func driverRestarts(t *testing.T, s *suite) {
	sp := s.spec(t, `echo "attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON"
case $RAYCTL_ATTEMPT in
1) exit 5;;
2) exec no-such-program-at-all;;
esac
exec `+python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
	sp.Job.Restarts.Driver = 2
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "driver-signaled", 128+11)
	lines := strings.Split(out, "\n")
	if len(lines) != 5 || lines[0] != "attempt 1 because " || lines[1] != "attempt 2 because driver-failed" || !strings.Contains(lines[2], "not found") || lines[3] != "attempt 3 because driver-failed" {
		t.Errorf("output %q", out) // the third line is the shell's
	}
	var ends []string
	for _, a := range oc.Receipt.Attempts {
		ends = append(ends, fmt.Sprint(a.Cause, " ", *a.ExitCode))
	}
	if want := []string{"driver-failed 5", "driver-failed 127", "driver-signaled 139"}; !slices.Equal(ends, want) {
		t.Errorf("attempts %q, want %q", ends, want)
	}
}

// needsNodeProgram has an actor on the worker node b, which ends the node's raylet in the first attempt: then the driver fails.
const needsNodeProgram = `import os, signal, ray
` + loseNode + `ray.init(log_to_driver=False, logging_level="ERROR")
@ray.remote(num_cpus=0, resources={"b": 0.1}, max_restarts=0)
class OnNode:
    def work(self, end):
        if end:
            lose_node()
        return "works"
again = os.environ["RAYCTL_ATTEMPT"] != "1"
print(ray.get(OnNode.remote().work.remote(not again)), "because", os.environ.get("RAYCTL_RESTART_REASON"))
`

// failsWithItsNode: it is the loss of the node, and not the driver's fault.
func failsWithItsNode(t *testing.T, s *suite) {
	sp := s.named(t, s.TwoGroups(), "exec "+python(needsNodeProgram))
	sp.Job.Restarts.NodeFailure = 1
	oc, out := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "driver", "succeeded", 0)
	if !strings.HasSuffix(out, "works because lost\n") {
		t.Errorf("output %q", out)
	}
	if a := oc.Receipt.Attempts; len(a) != 2 || a[0].Cause != runstate.CauseLost || !strings.HasPrefix(a[0].Message, "the driver exited with code 1, after node ") || !strings.HasSuffix(a[0].Message, " was lost") {
		t.Errorf("attempts: %s", mustJSON(t, a))
	}
}

func setupFails(t *testing.T, s *suite) {
	sp := s.spec(t, "echo never")
	sp.Setup = "echo the licence server is away >&2\nfalse"
	oc, _ := s.run(t, sp, launcher.RunOptions{})
	wantExit(t, oc.Receipt.Exit, "rayctl", "start-failed", runstate.CodeStartFailed)
	if !strings.Contains(oc.Receipt.Exit.Message, "the licence server is away") {
		t.Errorf("the reason is not told: %q", oc.Receipt.Exit.Message)
	}
}
