//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
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
	small := smallDisk(t)
	b := newBed(t, slurmtest.Options{Nodes: 4, Preemption: true, Binds: []string{small}, Settings: map[string]string{
		"PreemptParameters": "send_user_signal", "SlurmdTimeout": "30", // living nodes are taken for dead on a busy machine before
		"KillWait": "20", // a supervisor has to end Ray and to remove its directory within it (Slurm's default is 30)
	}})
	t.Run("Refused", b.earlyRefused)
	t.Run("CannotSubmit", b.earlyCannotSubmit)
	t.Run("Queued", b.earlyQueued)
	t.Run("PrepareFails", b.earlyPrepareFails)
	t.Run("Ended", b.earlyEnded)
	t.Run("DiskFills", func(t *testing.T) { b.earlyDiskFills(t, small) })
	t.Run("Requeued", b.earlyRequeued)
	t.Run("RequeuedAgain", b.earlyRequeuedAgain)
	t.Run("Warned", b.earlyWarned)
	t.Run("WorkerNodeDies", b.earlyWorkerNodeDies)
	t.Run("Elastic", b.earlyElastic)
	t.Run("Granted", b.earlyGranted)
	t.Run("HeadsNodeDies", b.earlyHeadsNodeDies)
	b.leavesNothing(t)
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

// earlyCannotSubmit: the head's node may not submit jobs to the gang's partition: the client that watches does it. Where no client watches, the gang waits.
func (b *bed) earlyCannotSubmit(t *testing.T) {
	allow := func(nodes string) {
		if _, err := b.Slurm(context.Background(), "scontrol", "update", "PartitionName=main", "AllocNodes="+nodes); err != nil {
			t.Error(err)
		}
	}
	l := b.launcher()
	id, err := l.Launch(t.Context(), b.early("mute", "", aliveNodes), launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	allow("node99")
	defer allow("ALL")
	waits := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Offers > 0 && strings.Contains(s.Reason.Message, "waits for a") })
	if !strings.Contains(waits.Reason.Message, "submits its job: node1 may not (sbatch: error: ") {
		t.Errorf("reason: %+v", waits.Reason)
	}
	allow("ctl")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		launcher.SubmitOffers(ctx, l, id, slog.New(slog.DiscardHandler))
	}()
	gone := watchUntil(t, l, id, isGone)
	cancel()
	<-done
	if e := gone.Exit; e == nil || e.Code != 0 {
		t.Errorf("exit: %+v\n%s", e, b.story(t, id))
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, "mute")
}

// aliveNodes prints how many nodes Ray has.
const aliveNodes = `python -c 'import ray; ray.init(log_to_driver=False, logging_level="ERROR"); print("nodes:", sum(n["Alive"] for n in ray.nodes()))'`

// earlyQueued: job.prepare runs, and its output is shown, while the gang waits for the reason that Slurm gives; the driver has all nodes. sbatch's answer about the gang
// is lost: there is one gang all the same.
func (b *bed) earlyQueued(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	g := b.waitFile(t)
	own := *b
	dir := own.wrapSbatch(t)
	lose := filepath.Join(dir, "lose")
	if err := os.WriteFile(lose, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := own.begin(t, b.early("early", "echo weights; "+g.wait(), aliveNodes), launcher.Payload{})
	st := r.until("preparing", func(s launcher.Status) bool {
		return gangWaits(s) && strings.HasPrefix(s.Reason.Message, "job.prepare runs; ")
	})
	if !strings.Contains(st.Reason.Message, "the gang waits: the partition is down (job ") || allocation(st, runstate.PurposeHead).State != "granted" {
		t.Errorf("%+v, %+v", st.Reason, st.Allocations)
	}
	b.copied(t, r.id, "weights\n")
	if jobs, err := b.Slurm(t.Context(), "squeue", "--noheader", "--format=%j"); err != nil || strings.Count(jobs, "-workers-") != 2 { // the components of one job
		t.Errorf("of the gang: %q, %v", jobs, err)
	}
	if _, err := os.Stat(lose); err == nil {
		t.Error("sbatch's answer was not lost")
	}
	g.create()
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

func gangWaits(s launcher.Status) bool {
	return s.Phase == runstate.Queued && s.Reason.Code == "PartitionDown" && allocation(s, runstate.PurposeGang).State == "queued"
}

func prepared(s launcher.Status) bool {
	return gangWaits(s) && s.Job != nil && s.Job.Prepare != nil && s.Job.Prepare.State == runstate.JobSucceeded
}

// earlyPrepareFails: the run ends by it, and the gang's job is not waited for.
func (b *bed) earlyPrepareFails(t *testing.T) {
	defer b.closePartition(t)()
	g := b.waitFile(t)
	s := b.early("unprepared", g.wait()+"; echo no such model; exit 9", "echo never")
	s.Job.Restarts.Driver = 3
	r := b.begin(t, s, launcher.Payload{})
	r.until("waiting for its gang", gangWaits)
	g.create()
	receipt := r.ended(9, "prepare-failed", "code 9")
	if receipt.Exit.Origin != runstate.OriginPrepare || receipt.Exit.Retryable || len(receipt.Attempts) != 1 || receipt.Prepare == nil || receipt.Prepare.State != runstate.JobFailed {
		t.Errorf("a failure of job.prepare is the user's, and final: %+v", receipt)
	}
	if want := "==> job.prepare <==\nno such model\n"; r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	r.forgotten()
}

// earlyEnded: what ends a run whose gang waits, and leaves nothing in the queue.
func (b *bed) earlyEnded(t *testing.T) {
	hangs := "trap 'echo told; exit 1' TERM; echo begun; sleep 600 & wait"
	for name, test := range map[string]struct {
		end         func(t *testing.T, r *watchedRun, s launcher.Status)
		code        int
		cause, said string
	}{
		"e-hangs": {func(t *testing.T, r *watchedRun, _ launcher.Status) {
			b.copied(t, r.id, "begun\n")
			b.down(t, r.l, r.id)
		}, runstate.CodeInterrupted, "down", ""},
		"e-max": {func(t *testing.T, r *watchedRun, _ launcher.Status) {
			b.copied(t, r.id, "begun\n")
			now := 0.1
			if err := launcher.AskKeeper(t.Context(), r.l, r.id, func(k *keeper.Client) error {
				_, err := k.Extend(t.Context(), keeper.Extend{Max: &now})
				return err
			}); err != nil {
				t.Error(err)
			}
		}, runstate.CodeTimeLimit, "max", ""},
		"e-down":   {func(t *testing.T, r *watchedRun, _ launcher.Status) { b.down(t, r.l, r.id) }, runstate.CodeInterrupted, "down", ""},
		"e-head":   {func(t *testing.T, r *watchedRun, _ launcher.Status) { b.scancel(t, r.id) }, runstate.CodeInterrupted, "interrupted", "cancelled"},
		"e-keeper": {func(t *testing.T, r *watchedRun, _ launcher.Status) { b.killKeeper(t, r.id) }, runstate.CodeLost, "lost", "the keeper was killed"},
		"e-gang": {func(t *testing.T, _ *watchedRun, s launcher.Status) {
			if _, err := b.Slurm(t.Context(), "scancel", "--name="+b.gangOf(t, s.Name)); err != nil {
				t.Error(err)
			}
		}, runstate.CodeInterrupted, "interrupted", "somebody cancelled the gang"},
		"e-limit": {func(*testing.T, *watchedRun, launcher.Status) {}, runstate.CodeQueueTimeout, "queue", "the gang waits: the partition is down"},
	} {
		t.Run(name, func(t *testing.T) {
			defer b.closePartition(t)()
			s := b.early(name, "", "echo never")
			switch name {
			case "e-limit":
				s.Lifetime.Queue = units.Limit(10 * time.Second)
			case "e-hangs", "e-max":
				s.Job.Prepare = hangs
			}
			r := b.begin(t, s, launcher.Payload{})
			test.end(t, r, r.until("waiting for its gang", gangWaits))
			r.ended(test.code, test.cause, test.said)
			if out := r.out.String(); s.Job.Prepare != "" && out != "==> job.prepare <==\nbegun\ntold\n" {
				t.Errorf("job.prepare hangs, and ends by SIGTERM: %q", out)
			}
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

// earlyDiskFills: job.prepare fills the disk that has the run's directory. The gang comes all the same, and the driver's exit code is kept.
func (b *bed) earlyDiskFills(t *testing.T, disk string) {
	open := b.closePartition(t)
	defer open()
	b = b.at(disk)
	filler := filepath.Join(disk, "filler")
	r := b.begin(t, b.early("filled", "echo begins; cat /dev/zero > "+filler+" 2> /dev/null; test $(stat -c %s "+filler+") -gt 0 && echo full", "echo fails; exit 3"), launcher.Payload{})
	r.until("prepared", prepared)
	open()
	r.ended(3, "driver-failed", "code 3")
	want := "==> job.prepare <==\nbegins\nfull\n==> driver <==\nfails\n"
	if r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	if text := b.recorded(t, r.l, r.id); text != want {
		t.Errorf("recorded %q, want %q", text, want)
	}
	if err := os.Remove(filler); err != nil {
		t.Error(err)
	}
	r.forgotten()
}

// earlyRequeued: a job of higher priority takes the head's node, with a warning, while the gang waits and job.prepare has ended: the next attempt is prepared again and asks for
// a gang of its own, and the one before has ended.
func (b *bed) earlyRequeued(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	scontrol := func(args ...string) {
		if _, err := b.Slurm(context.Background(), "scontrol", args...); err != nil {
			t.Error(err)
		}
	}
	scontrol("create", "PartitionName=heads", "Nodes=ALL", "PriorityTier=1", "PreemptMode=REQUEUE", "GraceTime=30")
	defer scontrol("delete", "PartitionName=heads")
	s := b.early("comeback", "echo prepared $RAYCTL_ATTEMPT", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; `+aliveNodes)
	s.Head.Sections = slurmspec.GroupIn(&slurmspec.Group{Partition: "heads"})
	r := b.begin(t, s, launcher.Payload{})
	first := r.until("prepared", prepared)
	high, err := b.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodelist="+host(t, first, "head-0"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = b.Slurm(context.Background(), "scancel", high) }()
	st := r.until("prepared again", func(s launcher.Status) bool { return s.Attempt == 2 && prepared(s) })
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
	receipt := r.ended(0, "succeeded", "")
	if a := receipt.Attempts; len(a) != 2 || a[0].Cause != runstate.CausePreempted {
		t.Errorf("attempts %+v", a)
	}
	want := "==> job.prepare <==\nprepared 1\n==> job.prepare <==\nprepared 2\n==> driver <==\nattempt 2 because preempted\nnodes: 3\n"
	if r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	r.forgotten()
}

// earlyRequeuedAgain: Slurm requeues the head's job while its next attempt begins, before there is a keeper, and when the keeper has begun it by itself. In both cases
// the run goes on with what the first attempt was given.
func (b *bed) earlyRequeuedAgain(t *testing.T) {
	again := func(t *testing.T, r *watchedRun, s launcher.Status) {
		if _, err := b.Slurm(t.Context(), "scontrol", "requeue", strings.TrimPrefix(s.Where, "job ")); err != nil {
			t.Fatal(err)
		}
		receipt := r.ended(0, "succeeded", "")
		if out := r.out.String(); !strings.HasPrefix(out, "attempt 1 because\n") || !strings.HasSuffix(out, "word swordfish\n") || len(receipt.Attempts) < 2 {
			t.Errorf("output %q, attempts %+v\n%s", out, receipt.Attempts, b.story(t, r.id))
		}
		r.forgotten()
	}
	begin := func(t *testing.T, b *bed, name string) (*watchedRun, launcher.Status) {
		s := b.early(name, "", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || exec sleep 600; echo word $WORD`)
		s.Secrets, s.Job.Restarts.NodeFailure = []spec.Secret{{Name: "WORD"}}, 2
		r := b.begin(t, s, launcher.Payload{Secrets: map[string]string{"WORD": "swordfish"}})
		st := r.until("running", func(s launcher.Status) bool { return jobRuns(s) && s.Phase == runstate.Ready })
		b.copied(t, r.id, "attempt 1 because\n")
		return r, st
	}
	t.Run("script", func(t *testing.T) {
		own, dir := *b, filepath.Join(b.Cluster.Dir, "shared", "holding")
		wrapper := filepath.Join(dir, "bin", "scancel")
		if err := errors.Join(os.MkdirAll(filepath.Dir(wrapper), 0o755), os.WriteFile(wrapper, []byte(strings.ReplaceAll(holding, "PLACE", dir)), 0o755)); err != nil {
			t.Fatal(err)
		}
		own.Prefix = slices.Concat(b.Prefix, []string{"sh", "-c", `PATH="$0:$PATH"; exec "$@"`, filepath.Dir(wrapper)})
		r, st := begin(t, &own, "again-script")
		b.killKeeper(t, r.id)
		b.awaitFile(t, filepath.Join(dir, "held"))
		again(t, r, st)
	})
	t.Run("keeper", func(t *testing.T) {
		r, st := begin(t, b, "again-keeper")
		b.killHead(t, r.id)
		r.until("starting again", func(s launcher.Status) bool { return s.Attempt == 2 && s.Phase == runstate.Starting })
		again(t, r, st)
	})
}

// holding stands before the real scancel in PATH: the first call of a requeued job never ends.
const holding = `#!/bin/sh
if [ "${SLURM_RESTART_COUNT:-0}" = 1 ] && mkdir PLACE/held 2> /dev/null; then exec sleep 600; fi
PATH=${PATH#PLACE/bin:}
exec scancel "$@"
`

// earlyWarned: Slurm signals the gang's job before its time limit, and then, in the next attempt, before a preemption. The driver has its grace, knows of the end by
// Ray's drain, and what follows is the next attempt, which is prepared again and has a gang again. Then Slurm takes the gang's nodes without a warning: a driver that
// fails because its workers go is no failure of the driver.
func (b *bed) earlyWarned(t *testing.T) {
	grace := func(seconds string) {
		if _, err := b.Slurm(context.Background(), "scontrol", "update", "PartitionName=main", "GraceTime="+seconds); err != nil {
			t.Error(err)
		}
	}
	grace("60")
	defer grace("0")
	s := b.early("warned", "echo prepared $RAYCTL_ATTEMPT", earlyWarnedDriver)
	for i := range s.Workers {
		s.Workers[i].CPUs = 2 // alike: one component
	}
	s.Job.Grace, s.Job.Restarts.TimeLimit = new(units.Duration), 1
	*s.Job.Grace = units.Duration(20 * time.Second)
	r := b.begin(t, s, launcher.Payload{})
	driving := func(attempt int, printed string) launcher.Status {
		st := r.until("running", func(s launcher.Status) bool { return s.Attempt == attempt && jobRuns(s) && s.Phase == runstate.Ready })
		b.copied(t, r.id, printed)
		return st
	}
	preempt := func(st launcher.Status) (release func()) {
		high, err := b.Submit(t.Context(), "sleep 1000", "--partition=high", "--nodes=1", "--cpus-per-task=15", "--nodelist="+host(t, st, "b-0"))
		if err != nil {
			t.Fatal(err)
		}
		return func() { _, _ = b.Slurm(context.Background(), "scancel", high) }
	}
	first := "attempt 1 because\nbegun\n"
	gang := strings.TrimPrefix(allocation(driving(1, first), runstate.PurposeGang).Where, "job ")
	if _, err := b.Slurm(t.Context(), "scontrol", "update", "JobId="+gang, "TimeLimit=2"); err != nil { // the warning is due 80 s before
		t.Fatal(err)
	}
	second := "attempt 2 because time-limit\nbegun\n"
	defer preempt(driving(2, second))()
	third := "attempt 3 because preempted\nbegun\n"
	st := driving(3, third)
	grace("0")
	defer preempt(st)()
	receipt := r.ended(0, "succeeded", "")
	attempt := func(n int, output string) string {
		return fmt.Sprintf("==> job.prepare <==\nprepared %d\n==> driver <==\n%s", n, output)
	}
	begin := attempt(1, first) + "warned within 20 s\nsaved\n" + attempt(2, second) + "warned within 20 s\nsaved\n" + attempt(3, third)
	end := attempt(4, "attempt 4 because preempted\n")
	if out := r.out.String(); !strings.HasPrefix(out, begin) || !strings.HasSuffix(out, end) {
		t.Errorf("output %q, want %q ... %q\n%s", out, begin, end, b.story(t, r.id))
	}
	if a := receipt.Attempts; len(a) != 4 || a[0].Cause != runstate.CauseTimeLimit || a[1].Cause != runstate.CausePreempted || a[2].Cause != runstate.CausePreempted {
		t.Errorf("attempts %+v\n%s", receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// earlyWarnedDriver prints what it sees of the gang's end in its first two attempts: Ray's drain of all nodes, and SIGTERM. In the third it fails because its worker goes.
const earlyWarnedDriver = `exec python -c '
import os, signal, sys, time, ray
ray.init(log_to_driver=False, logging_level=40)
attempt, reason = os.environ["RAYCTL_ATTEMPT"], os.environ.get("RAYCTL_RESTART_REASON", "")
print(("attempt " + attempt + " because " + reason).strip(), flush=True)
if attempt == "3":
    work = ray.remote(num_cpus=0, resources={"b": 1}, max_retries=0)(lambda: time.sleep(600)).remote()
    print("begun", flush=True)
    ray.get(work)
if attempt == "4":
    sys.exit()
told = []
signal.signal(signal.SIGTERM, lambda *_: told.append(True))
class Worker:
    def node(self):
        return ray.get_runtime_context().get_node_id()
worker = ray.remote(num_cpus=0, resources={"b": 1})(Worker).remote()
both, draining = {ray.get(worker.node.remote()), ray.get_runtime_context().get_node_id()}, ray._private.state.state.get_draining_nodes
print("begun", flush=True)
while not told or not both <= set(draining()):
    time.sleep(0.1)
left = min(draining().values()) / 1000 - time.time()
print("warned", "within 20 s" if 0 < left < 21 else left, flush=True)
time.sleep(1)
print("saved", flush=True)
'`

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

// earlyElastic: an elastic group's node comes when Ray asks for it, once the gang is there, which Ray's autoscaler has not asked for again while it waited. When
// the keeper and its batch script are killed together, and nobody watches, both jobs end by themselves.
func (b *bed) earlyElastic(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	g := b.waitFile(t)
	s := b.wantsTwo("both", g)
	s.Head = b.early("", "", "").Head
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, gangWaits)
	open()
	watchUntil(t, l, id, func(s launcher.Status) bool { return jobRuns(s) && s.Phase == runstate.Ready })
	g.create()
	st := watchUntil(t, l, id, func(s launcher.Status) bool { return last(s).State == "granted" && alive(s, "b-1") })
	if len(st.Allocations) != 3 {
		t.Errorf("%+v", st.Allocations)
	}
	b.copied(t, id, two(1))
	for _, role := range []string{"slurm-batch", "slurm-start"} {
		b.kill(t, id, func(command string) bool { return strings.Contains(command, "keeper.pyz "+role) })
	}
	b.Await(t, "the end of all jobs", func(ctx context.Context) (bool, error) {
		jobs, err := b.Slurm(ctx, "squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%j")
		return !strings.Contains(jobs, "both"), err
	})
	if gone := watchUntil(t, l, id, isGone); gone.Exit == nil || gone.Exit.Cause != runstate.CauseLost {
		t.Errorf("exit: %+v\n%s", gone.Exit, b.story(t, id))
	}
	b.down(t, l, id)                                                  // writes the result
	if text := b.recorded(t, l, id); linesOf("two", text) != two(1) { // Ray's own words about its end may follow
		t.Errorf("recorded %q, want %q", text, two(1))
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, s.Name)
}

// earlyGranted: the head goes in the moment in which the gang's job begins. Nothing of either stays, and no attempt has two drivers.
func (b *bed) earlyGranted(t *testing.T) {
	drivers := func(t *testing.T) string {
		return filepath.Join(b.Cluster.Dir, "shared", strings.ReplaceAll(t.Name(), "/", "-"))
	}
	begin := func(t *testing.T, name string) (*watchedRun, launcher.Status, func()) {
		open := b.closePartition(t)
		s := b.early(name, "echo prepared $RAYCTL_ATTEMPT", "echo $RAYCTL_ATTEMPT >> "+drivers(t)+"; echo driven $RAYCTL_ATTEMPT")
		s.Job.Restarts.NodeFailure = 1
		r := b.begin(t, s, launcher.Payload{})
		st := r.until("waiting for its gang", prepared)
		b.copied(t, r.id, "prepared 1\n")
		return r, st, open
	}
	t.Run("job", func(t *testing.T) {
		r, _, open := begin(t, "granted-job")
		open()
		b.scancel(t, r.id)
		r.ended(runstate.CodeInterrupted, "interrupted", "cancelled")
		if text, err := os.ReadFile(drivers(t)); err == nil {
			t.Errorf("drivers ran in attempts %q", text)
		}
		if out, text := r.out.String(), b.recorded(t, r.l, r.id); out != "==> job.prepare <==\nprepared 1\n" || text != out {
			t.Errorf("output %q, recorded %q", out, text)
		}
		r.forgotten()
	})
	t.Run("node", func(t *testing.T) {
		r, st, open := begin(t, "granted-node")
		open()
		b.Await(t, "the gang's grant", func(ctx context.Context) (bool, error) {
			out, err := b.Slurm(ctx, "squeue", "--noheader", "--states=RUNNING", "--format=%j")
			return strings.Contains(out, "granted-node-workers-"), err
		})
		defer b.powerOff(t, st, "head-0")()
		<-r.done
		b.completed(t, "granted-node-workers-")
		r.ended(0, "succeeded", "")
		if text, err := os.ReadFile(drivers(t)); err != nil || string(text) != "2\n" && string(text) != "1\n2\n" {
			t.Errorf("drivers ran in attempts %q, %v\n%s", text, err, b.story(t, r.id))
		}
		first := strings.ReplaceAll(r.out.String(), "==> driver <==\ndriven 1\n", "") // the driver's line may go with the node
		if want := "==> job.prepare <==\nprepared 1\n==> job.prepare <==\nprepared 2\n==> driver <==\ndriven 2\n"; first != want {
			t.Errorf("output %q, want %q", r.out.String(), want)
		}
		if text := b.recorded(t, r.l, r.id); text != r.out.String() {
			t.Errorf("recorded %q, shown %q", text, r.out.String())
		}
		r.forgotten()
	})
}

// completed waits until no job of these names is COMPLETING. Slurm starts a gang again that has lost a node, the next attempt's keeper cancels that while it begins, and
// a node whose slurmd is asked to end a job that has not arrived there is asked again after a minute or two (seen with Slurm 24.11 on a busy machine).
func (b *bed) completed(t *testing.T, names string) {
	b.Await(t, "Slurm to have ended "+names, func(ctx context.Context) (bool, error) {
		out, err := b.Slurm(ctx, "squeue", "--noheader", "--states=COMPLETING", "--format=%j")
		return err == nil && !strings.Contains(out, names), err
	})
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
