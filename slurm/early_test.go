//go:build linux

package slurm_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestEarly is about early heads, whose gang is a job of its own: whatever happens to one of the two jobs, both end.
func TestEarly(t *testing.T) {
	pace.Parallel(t)
	small := smallDisk(t)
	b := start(t, slurmtest.Options{Nodes: 4, Preemption: true, Binds: []string{small}, Settings: map[string]string{
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
	if all := runstate.Of(s.Allocations, purpose); len(all) > 0 {
		found = all[len(all)-1]
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

// earlyQueued: job.prepare runs, and its output is shown, while the gang waits for the reason that Slurm gives; the driver has all nodes. sbatch's answer about the gang
// is lost: there is one gang all the same.
func (b *bed) earlyQueued(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	g := b.gate(t)
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

// earlyPrepareFails: the run ends by it, and the gang's job is not waited for.
func (b *bed) earlyPrepareFails(t *testing.T) {
	defer b.closePartition(t)()
	g := b.gate(t)
	s := b.early("unprepared", g.wait()+"; echo no such model; exit 9", "echo never")
	s.Job.Restarts.Driver = 3
	r := b.begin(t, s, launcher.Payload{})
	r.until("waiting for its gang", gangWaits)
	g.open()
	receipt := r.ended(9, "prepare-failed", "code 9")
	if receipt.Exit.Origin != runstate.OriginPrepare || receipt.Exit.Retryable || len(receipt.Attempts) != 1 || receipt.Prepare == nil || receipt.Prepare.State != runstate.JobFailed {
		t.Errorf("a failure of job.prepare is the user's, and final: %+v", receipt)
	}
	if want := "==> job.prepare <==\nno such model\n"; r.out.String() != want {
		t.Errorf("output %q, want %q", r.out.String(), want)
	}
	r.forgotten()
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

// earlyElastic: an elastic group's node comes when Ray asks for it, once the gang is there, which Ray's autoscaler has not asked for again while it waited. When
// the keeper and its batch script are killed together, and nobody watches, both jobs end by themselves.
func (b *bed) earlyElastic(t *testing.T) {
	open := b.closePartition(t)
	defer open()
	g := b.gate(t)
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
	g.open()
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
