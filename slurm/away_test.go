//go:build linux

package slurm_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/test/slurmtest"
	"github.com/rayctl/rayctl/test/stopped"
)

// controllerAwayAtStart: the controller ends between the grant and the step with the nodes. srun gives up then; the start is repeated, and its words are shown.
func (b *bed) controllerAwayAtStart(t *testing.T) {
	g := b.gate(t)
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
	g.open()
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

// keeperComesBack: the keeper stands still while Slurm loses its node and queues the job again. When it goes on, the next attempt runs: it ends its nodes and itself.
func (b *bed) keeperComesBack(t *testing.T) {
	g := b.gate(t)
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
			supervisor := strings.Contains(p.Command, "keeper.pyz node "+b.run(r.id)) && !strings.HasPrefix(p.Command, "srun ") // it removes the node's directory last
			if supervisor || strings.Contains(p.Command, "keeper.pyz slurm-start") || strings.Contains(p.Command, "gcs_server") {
				found = append(found, p)
			}
		}
		return found
	}
	for _, p := range there() {
		if strings.Contains(p.Command, "slurm-start") {
			if err := stopped.Stop(p.PID); err != nil {
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
	g.open()
	resume()
	receipt := r.ended(0, "succeeded", "")
	if a := receipt.Attempts; len(a) != 2 || a[0].Cause != runstate.CauseLost || r.out.String() != "attempt 1 because\nattempt 2 because lost\n" {
		t.Errorf("output %q; attempts %+v\n%s", r.out.String(), a, b.story(t, r.id))
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
