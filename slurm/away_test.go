//go:build linux

package slurm_test

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/slurmspec"
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
	i, err := strconv.Atoi(strings.TrimPrefix(host, "node"))
	if err != nil {
		t.Fatal(err)
	}
	goOn, err := b.HangSlurmd(t.Context(), i)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := goOn(); err != nil {
			t.Error(err)
		}
		b.AwaitNodeBack(t, i)
	}()
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
