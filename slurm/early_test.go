//go:build linux

package slurm_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestEarly is about early heads, whose gang is a job of its own: whatever happens to one of the two jobs, both end.
func TestEarly(t *testing.T) {
	pace.Parallel(t)
	b := start(t, slurmtest.Options{Nodes: 4, Preemption: true})
	t.Run("Refused", b.earlyRefused)
	t.Run("CannotSubmit", b.earlyCannotSubmit)
	t.Run("Queued", b.earlyQueued)
	t.Run("StartHead", b.earlyStartHead)
	t.Run("PrepareFails", b.earlyPrepareFails)
	t.Run("Ended", b.earlyEnded)
	t.Run("Requeued", b.earlyRequeued)
	t.Run("Preempted", b.earlyPreempted)
	t.Run("WorkerNodeDies", b.earlyWorkerNodeDies)
	t.Run("Elastic", b.earlyElastic)
	t.Run("HeadsNodeDies", b.earlyHeadsNodeDies)
	b.leavesNothing(t)
}

// aliveNodes prints how many nodes Ray has.
const aliveNodes = `python -c 'import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print("nodes:", sum(n["Alive"] for n in ray.nodes()))'`

// early is a cluster of two unlike groups, whose head is early, in the partition that stays open when main is closed.
func (b *bed) early(name, prepare, entrypoint string) *spec.ClusterSpec {
	s := b.twoGroups()
	s.Name, s.Job.Prepare, s.Job.Entrypoint = name, prepare, entrypoint
	s.Head = spec.Head{Early: true, NodeResources: small()}
	s.Head.Sections = slurmspec.GroupIn(&slurmspec.Group{Partition: "high"})
	return s
}

// allocation is the newest one of a purpose; of none, one without a state.
func allocation(s launcher.Status, purpose string) (found runstate.Allocation) {
	for _, a := range s.Allocations {
		if a.Purpose == purpose {
			found = a
		}
	}
	return found
}

func gangWaits(s launcher.Status) bool {
	return s.Phase == runstate.Queued && s.Reason.Code == "PartitionDown" && allocation(s, runstate.PurposeGang).State == "queued"
}

func prepared(s launcher.Status) bool {
	return gangWaits(s) && s.Job != nil && s.Job.Prepare != nil && s.Job.Prepare.State == runstate.JobSucceeded
}

// earlyRefused: what Slurm would never give the gang is refused before the head is asked for.
func (b *bed) earlyRefused(t *testing.T) {
	s := b.early("too-large", "", "echo never")
	many := 99
	s.Workers[1].Replicas = &many
	_, err := b.launcher().Launch(t.Context(), s, launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "the gang of too-large") {
		t.Errorf("%v (code %d)", err, launcher.ExitCode(err))
	}
	b.nothingLeft(t, "too-large")
}

// earlyCannotSubmit: the head's node may not submit jobs to the gang's partition. Who launches may: that is closed behind him.
func (b *bed) earlyCannotSubmit(t *testing.T) {
	l := b.launcher()
	id, err := l.Launch(t.Context(), b.early("mute", "", "echo never"), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	allow := func(nodes string) {
		if _, err := b.Slurm(t.Context(), "scontrol", "update", "PartitionName=main", "AllocNodes="+nodes); err != nil {
			t.Error(err)
		}
	}
	allow("node99")
	defer allow("ALL")
	gone := watchUntil(t, l, id, isGone)
	if e := gone.Exit; e == nil || e.Code != runstate.CodeStartFailed || e.Retryable || !strings.HasPrefix(e.Message, "the gang cannot be asked for: node1 may not submit its job (sbatch: error: ") {
		t.Errorf("exit: %+v\n%s", e, b.story(t, id))
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, "mute")
}

// earlyQueued: job.prepare runs, and its output is shown, while the gang waits for the reason that Slurm gives; the driver has all nodes.
func (b *bed) earlyQueued(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	g := b.gate(t)
	r := b.begin(t, b.early("early", "echo weights; "+g.wait(), aliveNodes), launcher.Payload{})
	st := r.until("preparing", func(s launcher.Status) bool {
		return gangWaits(s) && strings.HasPrefix(s.Reason.Message, "job.prepare runs; ")
	})
	if !strings.Contains(st.Reason.Message, "the gang waits: the partition is down (job ") || allocation(st, runstate.PurposeHead).State != "granted" {
		t.Errorf("%+v, %+v", st.Reason, st.Allocations)
	}
	b.copied(t, r.id, "weights\n")
	g.open()
	st = r.until("prepared", prepared)
	if st.Job.State != runstate.JobWaiting {
		t.Errorf("the driver is %s", st.Job.State)
	}
	open()
	receipt := r.ended(0, "succeeded", "")
	if want := "==> job.prepare <==\nweights\n==> driver <==\nnodes: 3\n"; r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	u, d := receipt.Usage, receipt.Durations
	if u.Nodes != 3 || u.NodeSeconds >= 3*(d.Total-d.Queued) || u.NodeSeconds <= d.Total-d.Queued-d.Draining {
		t.Errorf("the gang is charged from its grant only: %+v, %+v, %+v", u, d, receipt.Timeline)
	}
	r.forgotten()
}

// earlyStartHead: the driver does not wait for the gang, and sees it come.
func (b *bed) earlyStartHead(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	g := b.gate(t)
	s := b.early("headstart", "echo weights", aliveNodes+"; "+g.wait()+"; "+aliveNodes)
	s.Job.Start = spec.StartWithHead
	r := b.begin(t, s, launcher.Payload{})
	r.until("driving", func(s launcher.Status) bool {
		return gangWaits(s) && jobRuns(s) && strings.HasPrefix(s.Reason.Message, "the driver runs; ")
	})
	b.copied(t, r.id, "nodes: 1\n")
	open()
	r.until("complete", func(s launcher.Status) bool { return s.Phase == runstate.Ready })
	g.open()
	r.ended(0, "succeeded", "")
	if out := r.out.String(); !strings.HasSuffix(out, "weights\n==> driver <==\nnodes: 1\nnodes: 3\n") {
		t.Errorf("output %q", out)
	}
	r.forgotten()
}

// earlyPrepareFails: the run ends by it, and the gang's job is not waited for.
func (b *bed) earlyPrepareFails(t *testing.T) {
	defer b.closePartition(t)()
	g := b.gate(t)
	r := b.begin(t, b.early("unprepared", g.wait()+"; exit 9", "echo never"), launcher.Payload{})
	r.until("waiting for its gang", gangWaits)
	g.open()
	r.ended(9, "prepare-failed", "code 9")
	r.forgotten()
}

// earlyEnded: what ends a run whose gang waits, and leaves nothing in the queue.
func (b *bed) earlyEnded(t *testing.T) {
	for name, test := range map[string]struct {
		end         func(t *testing.T, r *begun, s launcher.Status)
		code        int
		cause, said string
	}{
		"e-down":   {func(t *testing.T, r *begun, _ launcher.Status) { b.down(t, r.l, r.id) }, runstate.CodeInterrupted, "down", ""},
		"e-head":   {func(t *testing.T, r *begun, _ launcher.Status) { b.scancel(t, r.id) }, runstate.CodeInterrupted, "interrupted", "cancelled"},
		"e-keeper": {func(t *testing.T, r *begun, _ launcher.Status) { b.killKeeper(t, r.id) }, runstate.CodeLost, "lost", "the keeper was killed"},
		"e-gang": {func(t *testing.T, _ *begun, s launcher.Status) {
			if _, err := b.Slurm(t.Context(), "scancel", "--name="+b.gangOf(t, s.Name)); err != nil {
				t.Error(err)
			}
		}, runstate.CodeInterrupted, "interrupted", "somebody cancelled the gang"},
		"e-limit": {func(*testing.T, *begun, launcher.Status) {}, runstate.CodeQueueTimeout, "queue", "the gang waits: the partition is down"},
	} {
		t.Run(name, func(t *testing.T) {
			defer b.closePartition(t)()
			s := b.early(name, "", "echo never")
			if test.cause == "queue" {
				s.Lifetime.Queue = units.Limit(10 * time.Second)
			}
			r := b.begin(t, s, launcher.Payload{})
			test.end(t, r, r.until("waiting for its gang", gangWaits))
			r.ended(test.code, test.cause, test.said)
			r.forgotten()
		})
	}
}

// gangOf is the name of the gang's job; "" if there is none.
func (b *bed) gangOf(t *testing.T, name string) string {
	t.Helper()
	out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--format=%j")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.FieldsSeq(out) {
		if strings.HasPrefix(line, name+"-workers-") {
			return line
		}
	}
	return ""
}

// host is where a Ray node is.
func host(t *testing.T, s launcher.Status, name string) string {
	t.Helper()
	for _, n := range s.Nodes {
		if n.Name == name {
			return n.Host
		}
	}
	t.Fatalf("there is no %s in %+v", name, s.Nodes)
	return ""
}

// earlyRequeued: the head's job is preempted while the gang waits: its next attempt asks for a gang of its own, and the one before is gone.
func (b *bed) earlyRequeued(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	r := b.begin(t, b.early("comeback", "", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; `+aliveNodes), launcher.Payload{})
	first := r.until("waiting for its gang", gangWaits)
	if _, err := b.Slurm(t.Context(), "scontrol", "requeue", strings.TrimPrefix(first.Where, "job ")); err != nil {
		t.Fatal(err)
	}
	st := r.until("waiting again", func(s launcher.Status) bool { return s.Attempt == 2 && gangWaits(s) })
	for _, a := range st.Allocations[:2] {
		if a.State != "released" || a.Purpose == runstate.PurposeGang && a.Granted != nil {
			t.Errorf("of the first attempt: %+v", a)
		}
	}
	out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--states=PENDING", "--format=%j")
	if n := strings.Count(out, "-workers-"); err != nil || n != 2 { // the components of one job
		t.Errorf("%d jobs wait: %s, %v", n, out, err)
	}
	open()
	r.ended(0, "succeeded", "")
	if want := "attempt 2 because preempted\nnodes: 3\n"; r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	r.forgotten()
}

// earlyPreempted: Slurm takes the gang's nodes from it. The next attempt has a gang again, and its cause; a driver that fails because its workers go is no failure of
// the driver.
func (b *bed) earlyPreempted(t *testing.T) {
	s := b.early("yielding", "echo prepared $RAYCTL_ATTEMPT", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON
[ $RAYCTL_ATTEMPT = 1 ] || exit 0
exec python -c '
import ray, time
ray.init(log_to_driver=False)
@ray.remote(resources={"b": 1}, max_retries=0)
def work(): time.sleep(600)
ray.get(work.remote())'`)
	for i := range s.Workers {
		s.Workers[i].CPUs = 2 // alike: one component
	}
	r := b.begin(t, s, launcher.Payload{})
	st := r.until("running", func(s launcher.Status) bool { return jobRuns(s) && s.Phase == runstate.Ready })
	b.copied(t, r.id, "attempt 1 because\n")
	high, err := b.Submit(t.Context(), "sleep 1000", "--partition=high", "--nodes=1", "--cpus-per-task=15", "--nodelist="+host(t, st, "b-0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = b.Slurm(context.Background(), "scancel", high) }()
	receipt := r.ended(0, "succeeded", "")
	if !strings.HasSuffix(r.out.String(), "prepared 2\n==> driver <==\nattempt 2 because preempted\n") || len(receipt.Attempts) != 2 || receipt.Attempts[0].Cause != runstate.CausePreempted {
		t.Errorf("output %q, attempts %+v\n%s", r.out.String(), receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// earlyWorkerNodeDies: the gang's job goes with one of its nodes; job.restarts allows another attempt, on another gang of the same head.
func (b *bed) earlyWorkerNodeDies(t *testing.T) {
	s := b.early("less", "", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || exec sleep 600`)
	exclusive := true
	s.Workers[1].Sections = slurmspec.GroupIn(&slurmspec.Group{Exclusive: &exclusive})
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, s, launcher.Payload{})
	st := r.until("running", func(s launcher.Status) bool { return jobRuns(s) && s.Phase == runstate.Ready })
	b.copied(t, r.id, "attempt 1 because\n")
	defer b.powerOff(t, st, "b-0")()
	receipt := r.ended(0, "succeeded", "")
	if want := "attempt 1 because\nattempt 2 because lost\n"; r.out.String() != want || len(receipt.Attempts) != 2 {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), want, receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// earlyElastic: an elastic group's node comes when Ray asks for it, once the gang is there, which Ray's autoscaler has not asked for again while it waited.
func (b *bed) earlyElastic(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	g := b.gate(t)
	s := b.wantsTwo("both", g)
	s.Head = b.early("", "", "").Head
	r := b.begin(t, s, launcher.Payload{})
	r.until("waiting for its gang", gangWaits)
	open()
	r.until("running", func(s launcher.Status) bool { return jobRuns(s) && s.Phase == runstate.Ready })
	g.open()
	st := r.until("of two nodes", func(s launcher.Status) bool { return last(s).State == "granted" && alive(s, "b-1") })
	if len(st.Allocations) != 3 || last(st).Purpose != runstate.PurposeElastic {
		t.Errorf("%+v", st.Allocations)
	}
	b.down(t, r.l, r.id)
	r.ended(runstate.CodeInterrupted, "down", "")
	r.forgotten()
}

// earlyHeadsNodeDies: the head's node, with the keeper, is switched off while the gang waits, and nobody watches: the gang's job ends when it starts.
func (b *bed) earlyHeadsNodeDies(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	s := b.early("headless", "", "echo never")
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	st := watchUntil(t, l, id, gangWaits)
	restore := b.powerOffHost(t, host(t, st, "head-0"))
	if b.gangOf(t, s.Name) == "" {
		t.Error("the gang does not wait any more")
	}
	open()
	b.Await(t, "the gang's end", func(context.Context) (bool, error) { return b.gangOf(t, s.Name) == "", nil })
	restore()
	b.down(t, l, id)
	if left := b.allocated(t, id); len(left) > 0 {
		t.Errorf("left: %q\n%s", left, b.story(t, id))
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
}
