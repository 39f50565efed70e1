//go:build linux

package slurm_test

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/stopped"
)

// keeperKilledWithOutput: what the driver wrote after its keeper's last look is in the record, and a restart that is left is made.
func (b *bed) keeperKilledWithOutput(t *testing.T) {
	g := b.gate(t)
	s := b.named("killed", "echo \"$(cat here)\"; [ $RAYCTL_ATTEMPT = 1 ] || exit 0; "+g.wait()+"; seq 20; touch "+g.path+".done; exec sleep 600")
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, s, asCommanded(t, s))
	r.until("running", jobRuns)
	b.copied(t, r.id, "killed\n")
	for _, p := range b.processes(t, r.id) {
		if strings.Contains(p.Command, "keeper.pyz slurm-start") {
			if err := stopped.Stop(p.PID); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.open()
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
	if err := os.MkdirAll(filepath.Join(b.run(id), "1", "nodes"), 0o700); err != nil { // else its node that lives makes it at any time, see contents
		t.Fatal(err)
	}
	before := contents(t, b.run(id))
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
	if after := contents(t, b.run(id)); !maps.Equal(before, after) {
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
	before = contents(t, b.run(id))
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
	if after := contents(t, b.run(id)); !maps.Equal(before, after) {
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

// contents are the files below a run's directory with their sizes and times, without nodes/: the supervisor of a node that lives saves Ray's logs there after
// its head was lost, whoever reads.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "nodes" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err == nil {
			out[path] = info.ModTime().String() + " " + strconv.FormatInt(info.Size(), 10)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (b *bed) awaitFile(t *testing.T, path string) {
	t.Helper()
	b.Await(t, "the file "+path, func(context.Context) (bool, error) {
		_, err := os.Stat(path)
		return err == nil, nil
	})
}
