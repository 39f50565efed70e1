//go:build linux

package slurm_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestIdentity: a job whose comment somebody rewrites stays the run's, in the queue and while it runs. What ends a run against its keeper's will ends it at once
// where no attempt may follow, with all of its output and its account.
func TestIdentity(t *testing.T) {
	pace.Parallel(t)
	b := start(t, slurmtest.Options{Nodes: 2})
	t.Run("Queued", func(t *testing.T) {
		release := b.occupy(t)
		defer release()
		several := b.twoGroups()
		several.Name, several.Job.Entrypoint = "several", "echo never"
		for _, s := range []*spec.ClusterSpec{b.named("plain", "echo never"), several} {
			t.Run(s.Name, func(t *testing.T) { b.rewrittenInQueue(t, b.launcher(), s, b.rewrite) })
		}
		t.Run("AnswerLost", func(t *testing.T) {
			l := slurm.New(slurm.Config{Runner: losing{b.beside}, Dir: b.Dir()})
			defer l.Close()
			b.rewrittenInQueue(t, l, b.named("lost", "echo never"), func(*testing.T, launcher.ID) {})
		})
	})
	t.Run("Running", b.rewrittenWhileRunning)
	t.Run("KeeperKilled", func(t *testing.T) { b.onPython36(t).keeperKilledWithOutput(t) }) // the login node finds out what there is
	t.Run("ReadsOnlyRead", b.readsOnlyRead)
	t.Run("NodeFailed", b.nodeFailedLast)
	b.leavesNothing(t)
}

// rewrite replaces the comments of a run's job.
func (b *bed) rewrite(t *testing.T, id launcher.ID) {
	t.Helper()
	ids, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name="+string(id), "--format=%A")
	if err != nil || ids == "" {
		t.Fatalf("jobs %q: %v", ids, err)
	}
	for _, job := range strings.Fields(ids) {
		if _, err := b.Slurm(t.Context(), "scontrol", "update", "JobId="+job, "Comment=mine, 'not' yours"); err != nil {
			t.Error(err)
		}
	}
}

// losing is a site where sbatch's answer is lost after a plugin (JobSubmitPlugins) has written a comment of its own.
type losing struct{ beside }

func (l losing) Command(ctx context.Context, argv ...string) *exec.Cmd {
	if slices.Contains(argv, "sbatch") {
		lose := `id=$("$@") && id=${id##*-} && scontrol update JobId="$id" Comment=plugin; echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1`
		argv = append([]string{"sh", "-c", lose, "sh"}, argv...)
	}
	return l.beside.Command(ctx, argv...)
}

// rewrittenInQueue: the run is listed as what it is, and `down` ends its job.
func (b *bed) rewrittenInQueue(t *testing.T, l *slurm.Launcher, s *spec.ClusterSpec, rewrite func(*testing.T, launcher.ID)) {
	id, err := l.Launch(t.Context(), s, launcher.Payload{})
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, id)
	watchUntil(t, l, id, func(s launcher.Status) bool {
		return s.Phase == runstate.Queued && s.Reason.Code != runstate.ReasonSubmitted
	})
	listed, err := l.List(t.Context(), launcher.Selector{Names: []string{s.Name}})
	if err != nil || len(listed) != 1 || listed[0].Phase != runstate.Queued {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	if _, err := os.Stat(filepath.Join(b.run(id), "1", "token")); err != nil {
		t.Error(err)
	}
	b.down(t, l, id)
	if left := b.allocated(t, id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
	if r, err := l.Result(t.Context(), id); err != nil || r.Exit.Cause != "down" {
		t.Errorf("result: %+v, %v", r, err)
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, s.Name)
}

// rewrittenWhileRunning: a job that was given up while the controller was away starts nothing in a later launch of the same name. After the comments were rewritten
// another client's `down` ends the run by its keeper, and nothing stays.
func (b *bed) rewrittenWhileRunning(t *testing.T) {
	s := b.named("rewritten", "echo \"$(cat here)\"; exec sleep 600")
	r := b.begin(t, s, asCommanded(t, s))
	r.until("running", jobRuns)
	b.copied(t, r.id, "rewritten\n")
	b.AwaitJob(t, b.earlierJob(t, r.id), "COMPLETED")
	b.rewrite(t, r.id)
	other := b.launcher()
	if listed, err := other.List(t.Context(), launcher.Selector{}); err != nil || len(listed) != 1 || listed[0].Phase != runstate.Ready {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	b.down(t, other, r.id)
	r.ended(runstate.CodeInterrupted, "down", "")
	if r.out.String() != "rewritten\n" {
		t.Errorf("output %q", r.out.String())
	}
	r.forgotten()
}

// earlierJob submits the job of a run as an earlier launch of the name would have.
func (b *bed) earlierJob(t *testing.T, id launcher.ID) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(b.run(id), "slurm.sh"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(b.run(id), "record.json"))
	if err != nil {
		t.Fatal(err)
	}
	_, nonce, _ := strings.Cut(string(record), `"nonce":"`)
	nonce, _, _ = strings.Cut(nonce, `"`)
	earlier := filepath.Join(b.Cluster.Dir, "shared", "earlier.sh")
	if err := os.WriteFile(earlier, []byte(strings.ReplaceAll(string(script), nonce, "EARLIER")), 0o600); err != nil {
		t.Fatal(err)
	}
	job, err := b.Slurm(t.Context(), "sbatch", "--parsable", "--output=/dev/null", earlier)
	if err != nil {
		t.Fatal(err)
	}
	return job
}
