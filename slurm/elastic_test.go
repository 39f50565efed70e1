//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestElastic is about companion jobs, which are the nodes of elastic groups above the required ones: whatever happens, none outlives its cluster.
// What they do in a good run is in the conformance suite, and what does not end the run is TestElasticFaults'.
func TestElastic(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t, slurmtest.Options{Nodes: 3, Preemption: true, Settings: map[string]string{
		"PreemptParameters": "send_user_signal", "SlurmdTimeout": "30", // living nodes are taken for dead on a busy machine before
	}, Partitions: []slurmtest.Partition{
		{Name: "main", Default: true, Extra: "PriorityTier=1 PreemptMode=REQUEUE GraceTime=60"}, {Name: "high", Extra: "PriorityTier=20 PreemptMode=OFF"},
	}})
	t.Run("Queued", b.companionQueued)
	t.Run("Preempted", b.companionPreempted)
	t.Run("HeadsNodeDies", b.companionsHeadDies)
	t.Run("RanksPreempted", b.ranksPreempted)
	b.leavesNothing(t)
}

// companionQueued: when the GCS or the keeper is killed while a task runs on a companion, its job ends, and the next attempt has its own. A required node that is
// lost is replaced by a companion. Slurm's reason is shown while another one waits; the keeper's death ends it, and one that is starting.
func (b *bed) companionQueued(t *testing.T) {
	g := b.waitFile(t)
	s, hold := b.wantsTwo("queued", g), g.path+"-hold"
	s.Job.Restarts.NodeFailure = 2
	s.Setup = "while [ -e " + hold + " ]; do sleep 0.2; done"
	r := b.begin(t, s, launcher.Payload{})
	g.create()
	before := launcher.Status{}
	working := func(attempt int) launcher.Status {
		st := r.until(fmt.Sprintf("of two nodes in attempt %d", attempt), func(s launcher.Status) bool {
			return s.Attempt == attempt && last(s).ID != last(before).ID && last(s).State == "granted" && alive(s, "b-1")
		})
		b.copied(t, r.id, fmt.Sprintf("two in attempt %d\n", attempt))
		return st
	}
	before = working(1)
	b.killHead(t, r.id)
	again := working(2)
	b.oneCompanion(t, again, before)
	before = again
	b.killKeeper(t, r.id)
	both := working(3)
	b.oneCompanion(t, both, before)
	b.killSupervisor(t, host(t, both, "b-0"))
	again = r.until("of the required node again", func(s launcher.Status) bool {
		return strings.HasPrefix(last(s).ID, "b-0.") && last(s).State == "granted" && alive(s, "b-0")
	})
	if err := os.WriteFile(hold, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Slurm(t.Context(), "scancel", jobNumber(last(both))); err != nil {
		t.Fatal(err)
	}
	starts := r.until("starting a node", func(s launcher.Status) bool {
		name, _, _ := strings.Cut(last(s).ID, ".")
		return last(s).ID != last(again).ID && last(s).State == "granted" && !alive(s, name)
	})
	open := b.closePartition(t)
	defer open()
	if _, err := b.Slurm(t.Context(), "scancel", jobNumber(last(again))); err != nil {
		t.Fatal(err)
	}
	st := r.until("waiting for a node", func(s launcher.Status) bool {
		return last(s).ID != last(starts).ID && last(s).State == "queued" && strings.Contains(last(s).Message, "PartitionDown")
	})
	if a := last(st); a.Granted != nil || !strings.HasPrefix(a.Message, "job ") {
		t.Errorf("%+v", a)
	}
	for _, a := range st.Allocations {
		if a.ID == last(starts).ID && a.State != "granted" {
			t.Errorf("what starts: %+v", a)
		}
	}
	b.killKeeper(t, r.id)
	receipt := r.ended(runstate.CodeLost, "lost", "the keeper was killed")
	if len(receipt.Attempts) != 3 {
		t.Errorf("attempts %+v", receipt.Attempts)
	}
	if text := b.recorded(t, r.l, r.id); r.out.String() != text || linesOf("two", text) != two(3) { // Ray's own words about its end stand between
		t.Errorf("output %q, recorded %q, want %q", r.out.String(), text, two(3))
	}
	if err := os.Remove(hold); err != nil {
		t.Error(err)
	}
	r.forgotten()
}

// oneCompanion: the cluster has one companion job, which is that of its status, and not that of an attempt before.
func (b *bed) oneCompanion(t *testing.T, now, before launcher.Status) {
	t.Helper()
	jobs, err := b.Slurm(t.Context(), "squeue", "--noheader", "--array", "--states=PENDING,RUNNING,COMPLETING", "--format=%i %j")
	if err != nil {
		t.Fatal(err)
	}
	var companions []string
	for line := range strings.Lines(jobs) {
		if number, name, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, now.Name+"-elastic-") {
			companions = append(companions, number)
		}
	}
	if want := jobNumber(last(now)); !slices.Equal(companions, []string{want}) || want == jobNumber(last(before)) {
		t.Errorf("companion jobs %q, want %s, which has followed %s", companions, want, jobNumber(last(before)))
	}
}

// killSupervisor kills that of a node of the cluster's own step, which then cannot report anything.
func (b *bed) killSupervisor(t *testing.T, host string) {
	t.Helper()
	all, err := b.Processes(host)
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{} // of the supervisor and of its guard, which is forked and may have the lower number: they begin anew at pid_max
	for _, p := range all {
		if strings.Contains(p.Command, "keeper.pyz node ") && strings.HasSuffix(p.Command, " --slurm") {
			parents[p.PID] = p.Parent
		}
	}
	for pid, parent := range parents {
		if _, forked := parents[parent]; forked {
			continue
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
		return
	}
	t.Fatalf("there is no supervisor on %s", host)
}

// companionPreempted: Slurm's warning becomes Ray's drain of the node. What runs there comes to its end, what follows has another node, and the run goes on. No client
// is there between the launch and the end.
func (b *bed) companionPreempted(t *testing.T) {
	s, begun := b.twoGroups(), b.waitFile(t) // a node that nothing has begun on goes at once
	s.Name = "preempted"
	s.Job.Entrypoint = `exec python -c '
import ray, time
ray.init(log_to_driver=False)
@ray.remote(resources={"b": 1}, max_retries=0)
def work(first):
    open("` + begun.path + `", "w").close()
    here, draining = ray.get_runtime_context().get_node_id(), ray._private.state.state.get_draining_nodes
    while first and here not in draining():
        time.sleep(0.1)
    left = draining()[here] / 1000 - time.time() if first else 0
    time.sleep(2)
    return here, left
one, left = ray.get(work.remote(True))
print("finished, warned in time:", 10 < left < 61, flush=True)
two, _ = ray.get(work.remote(False))
print("another node:", one != two, flush=True)'`
	none, most := 0, 2
	s.Workers[0].CPUs = 16 // all of the node: the companion has another one
	s.Workers[1].Replicas, s.Workers[1].MinReplicas, s.Workers[1].MaxReplicas = &none, &none, &most
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	b.Await(t, "the task", func(context.Context) (bool, error) {
		_, err := os.Stat(begun.path)
		return err == nil, nil
	})
	// Ray's autoscaler may ask for a second node while it does not see yet that the first one has the task: both are on the node that the step leaves free.
	companions := func(ctx context.Context) (host string, left bool, err error) {
		out, err := b.Slurm(ctx, "squeue", "--noheader", "--format=%j %T %N")
		for line := range strings.Lines(out) {
			if job := strings.Fields(line); strings.HasPrefix(job[0], s.Name) {
				left = true
				if strings.Contains(job[0], "-elastic-") && job[1] == "RUNNING" {
					host = job[2]
				}
			}
		}
		return host, left, err
	}
	host, _, err := companions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodelist="+host)
	if err != nil {
		t.Fatal(err)
	}
	b.Await(t, "the end", func(ctx context.Context) (bool, error) {
		_, left, err := companions(ctx)
		return !left, err
	})
	if _, err := b.Slurm(t.Context(), "scancel", other); err != nil {
		t.Error(err)
	}
	result, err := l.Result(t.Context(), id)
	if err != nil || result.Exit.Cause != "succeeded" {
		t.Fatalf("%+v, %v\n%s", result, err, b.story(t, id))
	}
	b.asSlurmCounts(t, result)
	out, err := os.ReadFile(result.Log.Path)
	// Before the second node is asked for, the GCS may tell the driver that no node has what the task asks for (Ray 2.60, when the autoscaler reports such a request).
	own := regexp.MustCompile(`(?m)^\x1b\[33m\(raylet\)\x1b\[0m There are tasks with infeasible .*\n`).ReplaceAllString(string(out), "")
	if want := "finished, warned in time: True\nanother node: True\n"; err != nil || !strings.Contains(own, want) {
		t.Errorf("output %q, %v, want %q\n%s", out, err, want, b.story(t, id))
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, s.Name)
}

// ranksPreempted: a job of higher priority takes a node of ranks. Slurm's warning gives all of them the time to save, and the next attempt has another node. Then the job is queued
// again without a warning, and one more attempt follows.
func (b *bed) ranksPreempted(t *testing.T) {
	g := b.waitFile(t)
	s := b.spread("ranks", `trap 'sleep 2; echo saved; exit 0' TERM
echo "attempt $RAYCTL_ATTEMPT of $RANK because $RAYCTL_RESTART_REASON"
case $RAYCTL_ATTEMPT in 1|2) while :; do sleep 0.1; done;; esac
`+g.wait())
	s.Job.Launch, s.Job.Grace = spec.Launch{PerNode: 1}, durationPtr(20*time.Second)
	r := b.begin(t, s, launcher.Payload{})
	begun := func(attempt int) launcher.Status {
		st := r.until("running", func(s launcher.Status) bool { return s.Attempt == attempt && jobRuns(s) && s.Phase == runstate.Ready })
		for rank := range 2 {
			b.copied(t, r.id, fmt.Sprintf("[rank %d] attempt %d of %d because ", rank, attempt, rank))
		}
		return st
	}
	high, err := b.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodelist="+host(t, begun(1), "b-0"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Slurm(t.Context(), "scontrol", "requeue", strings.TrimPrefix(begun(2).Where, "job ")); err != nil {
		t.Fatal(err)
	}
	begun(3)
	g.create()
	receipt := r.ended(0, "succeeded", "")
	if _, err := b.Slurm(t.Context(), "scancel", high); err != nil {
		t.Error(err)
	}
	if a := receipt.Attempts; len(a) != 3 || a[0].Cause != runstate.CausePreempted || a[1].Cause != runstate.CausePreempted {
		t.Errorf("attempts %+v\n%s", a, b.story(t, r.id))
	}
	for rank := range 2 {
		var got strings.Builder
		if _, err := driverio.NewRankOutput(&got, rank, false).Write(r.out.Bytes()); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("attempt 1 of %[1]d because \nsaved\nattempt 2 of %[1]d because preempted\n", rank)
		if text := strings.Replace(got.String(), "Terminated\n", "", 1); !strings.HasPrefix(text, want) || !strings.HasSuffix(text, fmt.Sprintf("\nattempt 3 of %d because preempted\n", rank)) {
			t.Errorf("rank %d: %q, want %q ...; all: %q", rank, text, want, r.out.String())
		}
	}
	r.forgotten()
}

// asSlurmCounts: the receipt's node-seconds are those of all jobs of the cluster, within three seconds a job.
func (b *bed) asSlurmCounts(t *testing.T, result *launcher.Result) {
	t.Helper()
	out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--array", "--states=all", "--format=%j|%D|%S|%e")
	if err != nil {
		t.Fatal(err)
	}
	jobs, seconds := 0.0, 0.0
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if fields[0] != result.Name && !strings.HasPrefix(fields[0], result.Name+"-elastic-") {
			continue
		}
		nodes, err := strconv.Atoi(fields[1])
		start, err1 := time.Parse("2006-01-02T15:04:05", fields[2])
		end, err2 := time.Parse("2006-01-02T15:04:05", fields[3])
		if err := errors.Join(err, err1, err2); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		jobs, seconds = jobs+1, seconds+float64(nodes)*end.Sub(start).Seconds()
	}
	if got := launcher.NewReceipt(result).Usage.NodeSeconds; jobs < 3 || math.Abs(got-seconds) > 3*jobs {
		t.Errorf("%.1f node-seconds in the receipt, %.1f of %.0f jobs:\n%s", got, seconds, jobs, out)
	}
}

// companionsHeadDies: compute nodes may not submit, and the node waits until a client does, which one that only reads does not. A client that is killed when it has
// submitted leaves one job, which is the node. Then the head's node, with the keeper, is switched off, and nobody watches: the companion on another node ends by
// itself within a minute, and one that waits is ended by `rayctl gc`.
func (b *bed) companionsHeadDies(t *testing.T) {
	if err := os.WriteFile(filepath.Join(b.wrapSbatch(t), "login-only"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	g := b.waitFile(t)
	g.create()
	s := b.wantsTwo("headless", g)
	s.Workers[0].CPUs = 16 // all of the node: the head has its node to itself
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, func(s launcher.Status) bool { // the allocation's words follow the number of offers
		return s.Offers == 1 && last(s).State == "queued" && strings.Contains(last(s).Message, "waits for a `rayctl run`, `up` or `submit` that watches")
	})
	b.clientDies(t, map[string]any{"Beside": b.beside, "Offers": id})
	st := watchUntil(t, l, id, func(s launcher.Status) bool { return alive(s, "b-1") && last(s).State == "granted" })
	b.oneCompanion(t, st, launcher.Status{})
	b.copied(t, id, two(1))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go launcher.SubmitOffers(ctx, l, id, slog.New(slog.DiscardHandler))
	open := b.closePartition(t)
	defer open()
	err = launcher.AskKeeper(t.Context(), l, id, func(k *keeper.Client) error {
		_, err := k.Scale(t.Context(), keeper.Scale{Group: "b", Min: 3})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	watchUntil(t, l, id, func(s launcher.Status) bool { return strings.Contains(last(s).Message, "PartitionDown") })
	stop()
	restore := b.powerOffHost(t, st.Nodes[0].Host)
	b.Await(t, "the companion's end", func(ctx context.Context) (bool, error) {
		out, err := b.Slurm(ctx, "squeue", "--noheader", "--states=RUNNING,COMPLETING", "--format=%j")
		return !strings.Contains(out, "-elastic-"), err
	})
	restore()
	if left, err := b.Slurm(t.Context(), "squeue", "--noheader", "--states=PENDING", "--format=%j"); err != nil || strings.Count(left, "-elastic-") != 1 {
		t.Errorf("what waits: %q, %v", left, err)
	}
	b.Await(t, "its collection", func(ctx context.Context) (bool, error) {
		collected, err := l.Reconcile(ctx, launcher.Scope{})
		return slices.ContainsFunc(collected, func(c launcher.Collected) bool {
			return c.Name == string(id) && (c.What == "leftovers" || c.What == "waiting job") // Slurm may have requeued the job when the node came back
		}), err
	})
	if left := b.allocated(t, id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if text := b.recorded(t, l, id); linesOf("two", text) != two(1) { // Ray's own words about its end may follow
		t.Errorf("recorded %q, want %q", text, two(1))
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
}
