//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

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

// holding stands before the real scancel in PATH: the first call of a requeued job never ends.
const holding = `#!/bin/sh
if [ "${SLURM_RESTART_COUNT:-0}" = 1 ] && mkdir PLACE/held 2> /dev/null; then exec sleep 600; fi
PATH=${PATH#PLACE/bin:}
exec scancel "$@"
`

// earlyRequeuedAgain: Slurm requeues the head's job while its next attempt begins, before there is a keeper, and when the keeper has begun it by itself. In both cases
// the run goes on with what the first attempt was given.
func (b *bed) earlyRequeuedAgain(t *testing.T) {
	again := func(t *testing.T, r *begun, s launcher.Status) {
		if _, err := b.Slurm(t.Context(), "scontrol", "requeue", strings.TrimPrefix(s.Where, "job ")); err != nil {
			t.Fatal(err)
		}
		receipt := r.ended(0, "succeeded", "")
		if out := r.out.String(); !strings.HasPrefix(out, "attempt 1 because\n") || !strings.HasSuffix(out, "word swordfish\n") || len(receipt.Attempts) < 2 {
			t.Errorf("output %q, attempts %+v\n%s", out, receipt.Attempts, b.story(t, r.id))
		}
		r.forgotten()
	}
	begin := func(t *testing.T, b *bed, name string) (*begun, launcher.Status) {
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
