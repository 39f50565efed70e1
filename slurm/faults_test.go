//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestFaults breaks a site of four nodes, one thing after the other. Each time there is an exit code and a sentence, and nothing is left.
// Killed keepers, heads and clients are the conformance suite's, a killed worker is Work's.
func TestFaults(t *testing.T) {
	pace.Parallel(t)
	small := smallDisk(t)
	b := start(t, slurmtest.Options{Nodes: 12, Binds: []string{small}})
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

// unreadableToken: the keeper reports the missing token and does not start Ray without it. A directory in the token's place is unreadable also for root.
func (b *bed) unreadableToken(t *testing.T) {
	release := b.closePartition(t)
	r := b.begin(t, b.named("token", "echo never"), launcher.Payload{})
	r.until("queued", func(s launcher.Status) bool { return s.Reason.Code != runstate.ReasonSubmitted && s.Reason.Code != "" })
	token := filepath.Join(b.run(r.id), "1", keeper.TokenFile)
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
	g := b.gate(t)
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
	g.open()
	b.Await(t, "the keeper to have ended", func(context.Context) (bool, error) {
		_, err := os.Stat(filepath.Join(b.run(r.id), "1", keeper.ResultFile))
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

func (b *bed) startController(t *testing.T) {
	t.Helper()
	if err := b.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// spread is a cluster whose head and worker are on nodes of their own.
func (b *bed) spread(name, entrypoint string) *spec.ClusterSpec {
	s := b.twoGroups()
	s.Name, s.Job.Entrypoint = name, entrypoint
	exclusive := true
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{Exclusive: &exclusive}})
	return s
}

// powerOff cuts the power of the node of one Ray node, until restore.
func (b *bed) powerOff(t *testing.T, s launcher.Status, member string) (restore func()) {
	t.Helper()
	for _, n := range s.Nodes {
		if n.Name == member {
			return b.powerOffHost(t, n.Host)
		}
	}
	t.Fatalf("there is no %s in %+v", member, s.Nodes)
	return nil
}

func (b *bed) powerOffHost(t *testing.T, host string) (restore func()) {
	t.Helper()
	i, err := strconv.Atoi(strings.TrimPrefix(host, "node"))
	if err != nil {
		t.Fatalf("the node is %q: %v", host, err)
	}
	if err := b.PowerOffNode(i); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := b.PowerOnNode(i); err != nil {
			t.Error(err)
		}
		b.AwaitNodeBack(t, i)
	}
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
	result := filepath.Join(b.run(launcher.ID(name)), "1", keeper.ResultFile)
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

func durationPtr(d time.Duration) *units.Duration { v := units.Duration(d); return &v }
