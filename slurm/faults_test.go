//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/faults"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestFaults breaks a site of four nodes, one thing after the other. Each time there is an exit code and a sentence, and nothing is left.
// Killed keepers, heads and clients are the conformance suite's, a killed worker is Work's.
func TestFaults(t *testing.T) {
	pace.Parallel(t)
	small := smallDisk(t)
	b := newBed(t, slurmtest.Options{Nodes: 12, Binds: []string{small}})
	b.clientDiesAfterSbatch(t) // DeadClient looks at its end: it takes two minutes, of which nothing happens in
	t.Run("FullDisk", func(t *testing.T) { b.fullDisk(t, small) })
	t.Run("DiskFills", func(t *testing.T) { b.diskFills(t, small) })
	t.Run("UnreadableToken", b.unreadableToken)
	t.Run("Cancelled", b.cancelled)
	t.Run("ControllerRestarts", b.controllerRestarts)
	t.Run("ControllerAwayAtStart", b.controllerAwayAtStart)
	t.Run("StatusIsTrue", b.statusIsTrue)
	t.Run("NodeIsDown", b.nodeIsDown)
	t.Run("NodesLost", b.nodesLost)
	t.Run("DeadClient", b.deadClient)
	b.leavesNothing(t)
}

// clientDiesAfterSbatch leaves a job whose client is dead.
func (b *bed) clientDiesAfterSbatch(t *testing.T) {
	t.Helper()
	s := b.named("orphan", "echo never")
	s.Secrets = []spec.Secret{{Name: "WORD"}}
	b.clientDies(t, map[string]any{"Beside": b.beside, "Spec": s})
	if jobs, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=orphan"); err != nil || jobs == "" {
		t.Fatalf("there is no job: %v", err)
	}
	conformance.Uncommitted(t.Context(), t, b.launcher(), "orphan")
}

// fullDisk: there is no room for a launch.
func (b *bed) fullDisk(t *testing.T, disk string) {
	b = b.at(disk)
	free := fill(t, disk)
	defer free()
	_, err := b.launcher().Launch(t.Context(), b.named("full", "echo never"), launcher.Payload{})
	for what, err := range map[string]error{"Launch": err, "Validate": b.launcher().Validate(t.Context(), b.named("full", "echo never"), launcher.Payload{DryRun: true})} {
		if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "no space is left") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v (code %d)", what, err, launcher.ExitCode(err))
		}
	}
	b.nothingLeft(t, "full")
}

// fill takes all space of the disk, until free.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "filler")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, zeroes{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk does not get full: %v", err)
	}
	_ = f.Close()
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// diskFills: a disk that fills while the driver runs does not cost its exit code. A client that watches misses only the output that neither reached
// it before the end nor could be saved, and reports that.
func (b *bed) diskFills(t *testing.T, disk string) {
	b = b.at(disk)
	g := b.waitFile(t)
	r := b.begin(t, b.named("fills", "echo begun; "+g.wait()+"; seq 200000; exit 3"), launcher.Payload{})
	r.until("running", jobRuns)
	free := fill(t, disk)
	g.create()
	receipt := r.ended(3, "driver-failed", "code 3")
	free()
	var text strings.Builder
	text.WriteString("begun\n")
	for i := range 200000 {
		text.WriteString(strconv.Itoa(i+1) + "\n")
	}
	all, out := text.String(), r.out.String()
	if !strings.HasPrefix(all, out) || !strings.HasPrefix(out, "begun\n") || out != all && len(receipt.Log.Missing) == 0 {
		t.Errorf("%d of %d bytes of output were seen, ending with %q; missing: %v", len(out), len(all), out[max(0, len(out)-20):], receipt.Log.Missing)
	}
	if receipt.Exit.Origin != runstate.OriginDriver {
		t.Errorf("exit: %+v", receipt.Exit)
	}
	r.forgotten()
}

// unreadableToken: the keeper reports the missing token and does not start Ray without it. A directory in the token's place is unreadable also for root.
func (b *bed) unreadableToken(t *testing.T) {
	release := b.closePartition(t)
	r := b.begin(t, b.named("token", "echo never"), launcher.Payload{})
	r.until("queued", func(s launcher.Status) bool { return s.Reason.Code != runstate.ReasonSubmitted && s.Reason.Code != "" })
	token := filepath.Join(b.runDir(r.id), "1", keeper.TokenFile)
	if err := errors.Join(os.Remove(token), os.Mkdir(token, 0o700)); err != nil {
		t.Fatal(err)
	}
	release()
	r.ended(runstate.CodeStartFailed, "start-failed", "token")
	r.forgotten()
}

// cancelled: somebody ends the job by Slurm's own means, without a warning.
func (b *bed) cancelled(t *testing.T) {
	s := b.named("cancelled", "echo begun; exec sleep 600")
	s.Secrets = []spec.Secret{{Name: "WORD"}}
	r := b.begin(t, s, launcher.Payload{Secrets: map[string]string{"WORD": "swordfish"}})
	r.until("running", jobRuns)
	b.scancel(t, r.id)
	r.ended(runstate.CodeInterrupted, "interrupted", "cancelled")
	r.forgotten()
}

// controllerRestarts: the controller is away while the job waits, and killed while it runs and while it ends. The run is none the wiser, and ends without it.
func (b *bed) controllerRestarts(t *testing.T) {
	g := b.waitFile(t)
	b.closePartition(t) // a restarted controller has it open again
	r := b.begin(t, b.named("steady", "echo begun; "+g.wait()+"; echo ended; exit 3"), launcher.Payload{})
	r.until("queued", func(s launcher.Status) bool { return s.Reason.Code == "PartitionDown" })
	if err := b.StopController(); err != nil {
		t.Fatal(err)
	}
	r.until("unreachable", func(s launcher.Status) bool { return s.Unreachable != "" && s.Phase == runstate.Queued })
	b.startController(t)
	r.until("running", jobRuns)
	if err := b.KillController(); err != nil {
		t.Fatal(err)
	}
	g.create()
	b.Await(t, "the keeper to have ended", func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(b.runDir(r.id), "1", keeper.ResultFile))
		return err == nil, nil
	})
	<-r.done
	watched, listed := b.first(t, r.id)
	for _, s := range []launcher.Status{watched, listed} {
		if s.Phase != runstate.Gone || s.Exit == nil || s.Exit.Code != 3 || !strings.Contains(s.Unreachable, "Slurm") {
			t.Errorf("what has ended: %s, %+v, %q", s.Phase, s.Exit, s.Unreachable)
		}
	}
	b.startController(t)
	b.Await(t, "its nodes to be free", func(context.Context) (bool, error) { return len(b.allocated(t, r.id)) == 0, nil })
	r.ended(3, "driver-failed", "code 3")
	if out := r.out.String(); out != "begun\nended\n" {
		t.Errorf("output %q", out)
	}
	r.forgotten()
}

// first is the first status that somebody gets who begins to watch, and what is listed at the same time.
func (b *bed) first(t *testing.T, id launcher.ID) (watched, listed launcher.Status) {
	t.Helper()
	l := b.launcher()
	statuses, err := l.Watch(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	watched = <-statuses
	all, err := l.List(t.Context(), launcher.Selector{Names: []string{string(id)}, All: true})
	if err != nil || len(all) != 1 {
		t.Fatalf("listed: %+v, %v", all, err)
	}
	return watched, all[0]
}

// controllerAwayAtStart: the controller ends between the grant and the step with the nodes. srun gives up then; the start is repeated, and its words are shown.
func (b *bed) controllerAwayAtStart(t *testing.T) {
	g := b.waitFile(t)
	s := b.named("early-restart", "echo begun")
	python := filepath.Join(b.Cluster.Dir, "shared", "late-python") // the batch script's: the job runs, and no step of it yet
	text := "#!/bin/sh\ntouch " + g.path + ".reached\n" + g.wait() + "\nexec " + b.python + " \"$@\"\n"
	if err := os.WriteFile(python, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	section := *slurmspec.Of(b.spread("", ""))
	section.Python = python
	s.Sections = slurmspec.In(&section)
	r := b.begin(t, s, launcher.Payload{})
	b.awaitFile(t, g.path+".reached")
	if err := b.StopController(); err != nil {
		t.Fatal(err)
	}
	g.create()
	r.until("told why it does not start", func(s launcher.Status) bool {
		return s.Phase == runstate.Starting && strings.Contains(s.Reason.Message, "Unable to contact slurm controller")
	})
	b.startController(t)
	receipt := r.ended(0, "succeeded", "")
	if r.out.String() != "begun\n" || len(receipt.Attempts) != 1 {
		t.Errorf("output %q; attempts %+v", r.out.String(), receipt.Attempts)
	}
	r.forgotten()
}

// statusIsTrue: whoever begins to watch a cluster gets what Slurm says of it first, not what the keeper wrote last.
func (b *bed) statusIsTrue(t *testing.T) {
	l := b.launcher()
	s := b.named("truth", "exec sleep 600")
	s.Job.Restarts.NodeFailure = 1 // else Slurm may not queue it again
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	running := func(s launcher.Status) bool { return jobRuns(s) && s.Phase == runstate.Ready }
	job := strings.TrimPrefix(watchUntil(t, l, id, running).Where, "job ")
	scontrol := func(verb string) {
		if _, err := b.Slurm(t.Context(), "scontrol", verb, job); err != nil {
			t.Fatal(err)
		}
	}
	scontrol("suspend")
	b.wantFirst(t, id, runstate.Suspended, "suspended")
	scontrol("resume")
	b.wantFirst(t, id, runstate.Ready, "")
	release := b.closePartition(t)
	defer release()
	scontrol("requeue")
	b.AwaitJob(t, job, "PENDING")
	b.wantFirst(t, id, runstate.Queued, "")
	b.down(t, l, id)
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, string(id))
}

// wantFirst: both are in a phase for a reason.
func (b *bed) wantFirst(t *testing.T, id launcher.ID, phase runstate.Phase, words string) {
	t.Helper()
	watched, listed := b.first(t, id)
	for how, s := range map[string]launcher.Status{"watched": watched, "listed": listed} {
		reason := s.Reason.Message
		if s.Exit != nil {
			reason = s.Exit.Message
		}
		if s.Phase != phase || !strings.Contains(reason, words) {
			t.Errorf("%s: %s, %+v, %+v; want %s: %s", how, s.Phase, s.Reason, s.Exit, phase, words)
		}
	}
}

// nodeIsDown: the reason of a run that waits for a node that does not answer names that; the run starts when the node is back.
func (b *bed) nodeIsDown(t *testing.T) {
	if err := b.KillSlurmd(3); err != nil {
		t.Fatal(err)
	}
	b.AwaitNode(t, 3, "down")
	s := b.named("patient", "hostname")
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Nodelist: "node3"}})
	s.Lifetime.Keep = durationPtr(time.Hour)
	r := b.begin(t, s, launcher.Payload{})
	r.until("explained", func(s launcher.Status) bool {
		return s.Phase == runstate.Queued && strings.HasPrefix(s.Reason.Code, "ReqNodeNotAvail") && s.Reason.Message != ""
	})
	if err := b.StartSlurmd(3); err != nil {
		t.Fatal(err)
	}
	if r.ended(0, "succeeded", ""); r.out.String() != "node3\n" {
		t.Errorf("output %q", r.out.String())
	}
	b.kept(t, "patient")
}

// kept: the record goes when lifetime.keep, an hour, has passed, and the name is free again.
func (b *bed) kept(t *testing.T, name string) {
	t.Helper()
	list := func() int {
		t.Helper()
		found, err := b.launcher().List(t.Context(), launcher.Selector{Names: []string{name}, All: true})
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	if n := list(); n != 1 {
		t.Errorf("%d records, want one", n)
	}
	result := filepath.Join(b.runDir(launcher.ID(name)), "1", keeper.ResultFile)
	longAgo := time.Now().Add(-time.Hour - time.Minute)
	if err := os.Chtimes(result, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	if n := list(); n != 0 {
		t.Errorf("%d records after their time", n)
	}
	for _, dryRun := range []bool{true, false} { // to list has removed nothing
		found, err := b.launcher().Reconcile(t.Context(), launcher.Scope{DryRun: dryRun})
		if err != nil || len(found) != 1 || found[0].Name != name {
			t.Errorf("collected (dry run: %v): %+v, %v", dryRun, found, err)
		}
	}
	b.nothingLeft(t, name)
}

// nodesLost: each run has nodes of its own, and waits for minutes until Slurm gives up a node and queues the job again.
func (b *bed) nodesLost(t *testing.T) {
	for name, lost := range map[string]func(*testing.T){
		"SlurmdHangs": b.slurmdHangs, "KeeperComesBack": b.keeperComesBack, "NodesReplaced": b.nodesReplaced, "HeadNodeDies": b.headNodeDies,
	} {
		t.Run(name, func(t *testing.T) {
			pace.Parallel(t)
			lost(t)
		})
	}
}

// slurmdHangs: the head's node does not answer Slurm, which queues the job again and cannot end what runs there. No restart is spent in the allocation that is
// lost: the next attempt runs on another node.
func (b *bed) slurmdHangs(t *testing.T) {
	s := b.spread("hung", `hostname; echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT = 2 ] || exec sleep 600`)
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, s, launcher.Payload{})
	st := r.until("running", func(s launcher.Status) bool { return jobRuns(s) && s.Phase == runstate.Ready })
	b.copied(t, r.id, "attempt 1 because\n")
	host := host(t, st, "a-0")
	defer b.hangSlurmd(t, host)()
	receipt := r.ended(0, "succeeded", "")
	lines := strings.Split(r.out.String(), "\n")
	if len(lines) != 5 || lines[0] != host || lines[2] == host || !slices.Equal(lines[3:], []string{"attempt 2 because lost", ""}) {
		t.Errorf("output %q; the first head was on %s\n%s", lines, host, b.story(t, r.id))
	}
	if a := receipt.Attempts; len(a) != 2 || a[0].Cause != runstate.CauseLost || a[1].Cause != "succeeded" {
		t.Errorf("attempts %+v\n%s", a, b.story(t, r.id))
	}
	r.forgotten()
}

// hangSlurmd stops the slurmd of a node until resume.
func (b *bed) hangSlurmd(t *testing.T, host string) (resume func()) {
	t.Helper()
	i, err := strconv.Atoi(strings.TrimPrefix(host, "node"))
	if err != nil {
		t.Fatal(err)
	}
	goOn, err := b.HangSlurmd(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		if err := goOn(); err != nil {
			t.Error(err)
		}
		b.AwaitNodeBack(t, i)
	})
}

// keeperComesBack: the keeper stands still while Slurm loses its node and queues the job again. When it goes on, the next attempt runs: it ends its nodes and itself.
func (b *bed) keeperComesBack(t *testing.T) {
	g := b.waitFile(t)
	s := b.spread("back", "echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; "+g.wait())
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, s, launcher.Payload{})
	st := r.until("running", func(s launcher.Status) bool { return jobRuns(s) && s.Phase == runstate.Ready })
	b.copied(t, r.id, "attempt 1 because\n")
	host := host(t, st, "a-0")
	there := func() (found []slurmtest.Process) {
		all, err := b.Processes(host)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			supervisor := strings.Contains(p.Command, "keeper.pyz node "+b.runDir(r.id)) && !strings.HasPrefix(p.Command, "srun ") // it removes the node's directory last
			if supervisor || strings.Contains(p.Command, "keeper.pyz slurm-start") || strings.Contains(p.Command, "gcs_server") {
				found = append(found, p)
			}
		}
		return found
	}
	for _, p := range there() {
		if strings.Contains(p.Command, "slurm-start") {
			if err := faults.Stop(p.PID); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Kill(p.PID, syscall.SIGCONT) }() // if the test fails
		}
	}
	resume := b.hangSlurmd(t, host)
	defer resume()
	r.until("running again", func(s launcher.Status) bool { return s.Attempt == 2 && jobRuns(s) && s.Phase == runstate.Ready })
	b.copied(t, r.id, "attempt 2 because lost\n")
	for _, p := range there() {
		if err := syscall.Kill(p.PID, syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
	b.Await(t, "the first keeper, its head and the supervisor of that to end", func(context.Context) (bool, error) { return len(there()) == 0, nil })
	g.create()
	resume()
	receipt := r.ended(0, "succeeded", "")
	if a := receipt.Attempts; len(a) != 2 || a[0].Cause != runstate.CauseLost || r.out.String() != "attempt 1 because\nattempt 2 because lost\n" {
		t.Errorf("output %q; attempts %+v\n%s", r.out.String(), a, b.story(t, r.id))
	}
	r.forgotten()
}

// nodesReplaced: with restarts left the loss of a worker's node, and then that of the head's, is the beginning of the next attempt, on another node, and its
// environment has the cause.
func (b *bed) nodesReplaced(t *testing.T) {
	s := b.spread("replaced", `hostname; echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT = 3 ] || exec sleep 600`)
	s.Job.Restarts.NodeFailure = 2
	r := b.begin(t, s, launcher.Payload{})
	var on []string // the head's nodes
	restore := func() {}
	defer func() { restore() }()
	for i, loses := range []struct{ member, printed string }{{"b-0", "attempt 1 because\n"}, {"a-0", "attempt 2 because lost\n"}} {
		st := r.until("running", func(s launcher.Status) bool { return s.Attempt == i+1 && jobRuns(s) && s.Phase == runstate.Ready })
		b.copied(t, r.id, loses.printed) // what the node has not let out yet is lost with it
		on = append(on, host(t, st, "a-0"))
		restore()
		restore = b.powerOff(t, st, loses.member)
	}
	receipt := r.ended(0, "succeeded", "")
	lines := strings.Split(r.out.String(), "\n")
	if len(lines) != 7 || lines[4] == on[1] || !slices.Equal(lines, []string{on[0], "attempt 1 because", on[1], "attempt 2 because lost", lines[4], "attempt 3 because lost", ""}) {
		t.Errorf("output %q; the heads that died were on %q\n%s", lines, on, b.story(t, r.id))
	}
	a := receipt.Attempts
	if len(a) != 3 || a[0].Attempt != 1 || a[0].Cause != runstate.CauseLost || a[1].Attempt != 2 || a[1].Cause != runstate.CauseLost || a[2].Attempt != 3 || a[2].Cause != "succeeded" {
		t.Errorf("attempts %+v\n%s", a, b.story(t, r.id))
	}
	r.forgotten()
}

// headNodeDies: with no restart left it is the end, although Slurm would run the job again. The nodes are dark at the same moment.
func (b *bed) headNodeDies(t *testing.T) {
	c := b.config(t)
	c.TwoGroups = func() *spec.ClusterSpec { return b.spread("", "") }
	c.Spec = func() *spec.ClusterSpec {
		s, exclusive := b.spec(), true
		s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Exclusive: &exclusive}})
		return s
	}
	conformance.NodeLost(t, c, func(t *testing.T, ids []launcher.ID) func() {
		var restore []func()
		for _, id := range ids {
			host, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name="+string(id), "--format=%B") // the node of the batch script, first
			if err != nil {
				t.Fatal(err)
			}
			restore = append(restore, b.powerOffHost(t, strings.Fields(host)[0]))
		}
		return func() {
			for _, back := range restore {
				back()
			}
		}
	})
}

// deadClient: the job of a client that died before the commit starts nothing and leaves nothing.
func (b *bed) deadClient(t *testing.T) {
	if out, err := os.ReadFile(filepath.Join(b.runDir("orphan"), "1", "keeper.log")); err == nil {
		t.Errorf("a keeper was there: %s", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), orders.Lease+patience)
	defer cancel()
	for ctx.Err() == nil { // the bed's own waits are shorter than the lease
		if left := b.allocated(t, "orphan"); len(left) == 0 {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	b.nothingLeft(t, "orphan")
}
