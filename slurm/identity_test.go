//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm"
	"github.com/rayctl/rayctl/test/faults"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestIdentity: a job whose comment somebody rewrites stays the run's, in the queue and while it runs. What ends a run against its keeper's will ends it at once
// where no attempt may follow, with all of its output and its account.
func TestIdentity(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t, slurmtest.Options{Nodes: 2})
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
	if _, err := os.Stat(filepath.Join(b.runDir(id), "1", "token")); err != nil {
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

// losing is a site where sbatch's answer is lost after a plugin (JobSubmitPlugins) has written a comment of its own.
type losing struct{ beside }

func (l losing) Command(ctx context.Context, argv ...string) *exec.Cmd {
	if slices.Contains(argv, "sbatch") {
		lose := `id=$("$@") && id=${id##*-} && scontrol update JobId="$id" Comment=plugin; echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2; exit 1`
		argv = append([]string{"sh", "-c", lose, "sh"}, argv...)
	}
	return l.beside.Command(ctx, argv...)
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

// asCommanded makes a launch as the command does: with a working directory, a runtime environment and a secret. The driver finds the file `here`.
func asCommanded(t *testing.T, s *spec.ClusterSpec) launcher.Payload {
	t.Helper()
	dir, cache := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "here"), []byte(s.Name), 0o644); err != nil {
		t.Fatal(err)
	}
	s.Secrets = []spec.Secret{{Name: "WORD"}}
	return launcher.Payload{Secrets: map[string]string{"WORD": "swordfish"}, Packages: func(ctx context.Context) (*launcher.Packages, error) {
		made, err := pack.WorkingDir(ctx, dir, pack.Options{CacheDir: cache})
		if err != nil {
			return nil, err
		}
		return &launcher.Packages{
			Files:      []launcher.PackageFile{{URI: made.URI, Path: made.Path, Size: made.Size}},
			RuntimeEnv: map[string]any{"working_dir": made.URI, "env_vars": map[string]any{"SAID": "so"}},
		}, nil
	}}
}

// earlierJob submits the job of a run as an earlier launch of the name would have.
func (b *bed) earlierJob(t *testing.T, id launcher.ID) string {
	t.Helper()
	script, err := os.ReadFile(filepath.Join(b.runDir(id), "slurm.sh"))
	if err != nil {
		t.Fatal(err)
	}
	record, err := os.ReadFile(filepath.Join(b.runDir(id), "record.json"))
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

// keeperKilledWithOutput: what the driver wrote after its keeper's last look is in the record, and a restart that is left is made.
func (b *bed) keeperKilledWithOutput(t *testing.T) {
	g := b.waitFile(t)
	s := b.named("killed", "echo \"$(cat here)\"; [ $RAYCTL_ATTEMPT = 1 ] || exit 0; "+g.wait()+"; seq 20; touch "+g.path+".done; exec sleep 600")
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, s, asCommanded(t, s))
	r.until("running", jobRuns)
	b.copied(t, r.id, "killed\n")
	for _, p := range b.processes(t, r.id) {
		if strings.Contains(p.Command, "keeper.pyz slurm-start") {
			if err := faults.Stop(p.PID); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.create()
	b.awaitFile(t, g.path+".done")
	b.killKeeper(t, r.id)
	receipt := r.ended(0, "succeeded", "")
	want := "killed\n"
	for i := range 20 {
		want += strconv.Itoa(i+1) + "\n"
	}
	if want += "killed\n"; r.out.String() != want || len(receipt.Attempts) != 2 || receipt.Attempts[0].Cause != "lost" {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), want, receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// readsOnlyRead: a job that waits in vain, of which only the head's node knew, is shown as it is to who lists or watches, and withdrawn by gc. How it ended
// can be read before anybody has written it.
func (b *bed) readsOnlyRead(t *testing.T) {
	s := b.spread("unseen", "echo \"$(cat here)\"; exec sleep 600")
	l := b.launcher()
	id, err := l.Launch(t.Context(), s, asCommanded(t, s))
	if err != nil {
		t.Fatal(err)
	}
	st := watchUntil(t, l, id, jobRuns)
	b.copied(t, id, "unseen\n")
	defer b.closePartition(t)()
	defer b.powerOff(t, st, st.Nodes[0].Name)()
	waits := func(ctx context.Context) (bool, error) { // its first component: Slurm leaves the others running
		out, err := b.Slurm(ctx, "squeue", "--noheader", "--name="+string(id), "--format=%T")
		return strings.HasPrefix(out, "PENDING"), err
	}
	b.Await(t, "the job to wait again", waits)
	if err := os.MkdirAll(filepath.Join(b.runDir(id), "1", "nodes"), 0o700); err != nil { // else its node that lives makes it at any time, see contents
		t.Fatal(err)
	}
	before := contents(t, b.runDir(id))
	if err := b.ResetRequests(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		listed, err := l.List(t.Context(), launcher.Selector{})
		if err != nil || len(listed) != 1 || listed[0].Phase != runstate.Queued || listed[0].Attempt != 2 {
			t.Errorf("listed: %+v, %v", listed, err)
		}
	}
	due := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Due != nil }).Due // the node's word may be late on shared file systems
	if due.Cause != runstate.CauseLost || !due.IfWaiting {
		t.Errorf("due: %+v", due)
	}
	if _, err := l.Result(t.Context(), id); !errors.Is(err, launcher.ErrNotEnded) {
		t.Errorf("its result: %v", err)
	}
	if after := contents(t, b.runDir(id)); !maps.Equal(before, after) {
		t.Errorf("to read has changed the run's directory:\n%v\n%v", before, after)
	}
	b.wantReads(t)
	if still, err := waits(t.Context()); err != nil || !still {
		t.Errorf("to read has ended the job: %v", err)
	}
	b.Await(t, "gc to withdraw it", func(ctx context.Context) (bool, error) {
		found, err := l.Reconcile(ctx, launcher.Scope{})
		return len(found) == 1 && found[0].What == "waiting job", err
	})
	var r *launcher.Result
	b.Await(t, "the nodes of its other component to be free", func(ctx context.Context) (free bool, err error) {
		r, err = l.Result(ctx, id)
		return err == nil, err
	})
	before = contents(t, b.runDir(id))
	read := func(offset int64) string {
		log, err := r.OpenLog(t.Context(), 0, offset)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(log)
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	// Ray writes a line of its own unflushed: it may be before or after the driver's.
	if text := read(0); !strings.Contains("\n"+text, "\nunseen\n") || read(2) != text[2:] || r.Log.Bytes != int64(len(text)) || r.Exit.Code != runstate.CodeLost || !r.Exit.Retryable {
		t.Errorf("result: %+v, %+v; output %q", r.Exit, r.Log, text)
	}
	if last := watchUntil(t, l, id, func(s launcher.Status) bool { return s.Phase.Ended() }); last.Exit == nil || *last.Exit != *r.Exit {
		t.Errorf("last status %+v, result %+v", last.Exit, r.Exit)
	}
	if after := contents(t, b.runDir(id)); !maps.Equal(before, after) {
		t.Errorf("to read has changed the directory of a run that has ended:\n%v\n%v", before, after)
	}
	if err := l.Forget(t.Context(), id); err != nil {
		t.Error(err)
	}
	b.nothingLeft(t, "unseen")
}

// wantReads: since ResetRequests slurmctld got requests, and none that changes anything.
func (b *bed) wantReads(t *testing.T) {
	t.Helper()
	if orders, err := b.Orders(t.Context()); err != nil || len(orders) > 0 {
		t.Errorf("to read has sent %v, %v", orders, err)
	}
	if requests, err := b.Requests(t.Context()); err != nil || len(requests) == 0 {
		t.Errorf("slurmctld has counted %v, %v", requests, err)
	}
}

// nodeFailedLast: the job that Slurm queues again is withdrawn, although nothing could start it.
func (b *bed) nodeFailedLast(t *testing.T) {
	s := b.spread("last", "echo \"$(cat here)\"; exec sleep 600")
	r := b.begin(t, s, asCommanded(t, s))
	st := r.until("running", jobRuns)
	b.copied(t, r.id, "last\n")
	release := b.closePartition(t)
	defer release()
	if _, err := b.Slurm(t.Context(), "scontrol", "update", "NodeName="+st.Nodes[1].Host, "State=DOWN", "Reason=test"); err != nil {
		t.Fatal(err)
	}
	receipt := r.ended(runstate.CodeLost, "lost", "node")
	if r.out.String() != "last\n" || receipt.Log.Bytes == 0 || receipt.Usage.NodeSeconds == 0 || len(receipt.Attempts) != 1 {
		t.Errorf("output %q; receipt %+v\n%s", r.out.String(), receipt, b.story(t, r.id))
	}
	r.forgotten()
}
