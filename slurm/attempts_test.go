//go:build linux

package slurm_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// attempts prints the attempt's number and cause; only the first attempt takes long.
const attempts = `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || exec sleep 600`

// preempt takes all nodes in the partition that preempts ours, until release.
func (b *bed) preempt(t *testing.T) (release func()) {
	t.Helper()
	id, err := b.Submit(t.Context(), "sleep 1000", "--partition=high", "--exclusive", "--nodes=4")
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := b.Slurm(t.Context(), "scancel", id); err != nil {
			t.Error(err)
		}
	}
}

// waitsAgain is a run whose job waits for its second attempt.
func waitsAgain(s launcher.Status) bool {
	return s.Phase == runstate.Queued && s.Attempt == 2 && s.Reason.Message != ""
}

// preempted: a job of higher priority takes the nodes. The run's status is waiting, and it goes on when it has nodes again. A client that begins
// to watch only then gets the first attempt's output before the second's.
func (b *bed) preempted(t *testing.T) {
	g := b.gate(t)
	s := b.named("yields", attempts+"; "+g.wait())
	s.Lifetime.Queue, s.Lifetime.Max = units.Limit(time.Hour), units.Limit(time.Hour)
	r := b.begin(t, s, launcher.Payload{})
	r.until("running", jobRuns)
	b.copied(t, r.id, "attempt 1 because\n")
	release := b.preempt(t)
	r.until("waiting again", waitsAgain)
	listed, err := r.l.List(t.Context(), launcher.Selector{Names: []string{"yields"}})
	if err != nil || len(listed) != 1 || !waitsAgain(listed[0]) {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	release()
	late := bufio.NewScanner(b.attach(t, r.id))
	for _, want := range []string{"attempt 1 because", "attempt 2 because preempted"} {
		if !late.Scan() || late.Text() != want {
			t.Errorf("who came late sees %q, want %q", late.Text(), want)
		}
	}
	g.open()
	receipt := r.ended(0, "succeeded", "")
	if want := "attempt 1 because\nattempt 2 because preempted\n"; r.out.String() != want || len(receipt.Attempts) != 2 || receipt.Attempts[0].Cause != "preempted" {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), want, receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// attach is the output that another client sees.
func (b *bed) attach(t *testing.T, id launcher.ID) io.Reader {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	out, in := io.Pipe()
	done := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		_ = out.Close() // never fails
		<-done
	})
	go func() {
		defer close(done)
		_, err := launcher.Attach(ctx, b.launcher(), id, launcher.RunOptions{Stdout: in})
		_ = in.CloseWithError(err) // never fails
	}()
	return out
}

// endedBetween: who waits for the next attempt ends as any that waits, by `down` and by its job's being cancelled.
func (b *bed) endedBetween(t *testing.T) {
	for cause, end := range map[string]func(*begun){
		"down":        func(r *begun) { b.down(t, r.l, r.id) },
		"interrupted": func(r *begun) { b.scancel(t, r.id) },
	} {
		t.Run(cause, func(t *testing.T) {
			r := b.begin(t, b.named("between", attempts), launcher.Payload{})
			r.until("running", jobRuns)
			release := b.preempt(t)
			defer release()
			r.until("waiting again", waitsAgain)
			end(r)
			r.ended(runstate.CodeInterrupted, cause, "")
			r.forgotten()
		})
	}
}

// timeLimit: Slurm's own limit of the job is known to the driver from the beginning, becomes Ray's drain and gives the driver its grace, and the next
// attempt goes on.
func (b *bed) timeLimit(t *testing.T) {
	s := b.named("limited", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || exec python -c `+shellescape.Quote(conformance.WarnedProgram))
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{ExtraArgs: []string{"--time=4"}}}) // Slurm warns a minute and the grace before, and up to a minute earlier
	s.Job.Restarts.TimeLimit, s.Job.Grace = 1, durationPtr(30*time.Second)
	r := b.begin(t, s, launcher.Payload{})
	r.until("running", jobRuns)
	text, err := b.Slurm(t.Context(), "squeue", "--noheader", "--name=limited", "--format=%e")
	if err != nil {
		t.Fatal(err)
	}
	end, err := time.ParseInLocation("2006-01-02T15:04:05", strings.TrimSpace(text), time.Local)
	if err != nil {
		t.Fatal(err)
	}
	receipt := r.ended(0, "succeeded", "")
	want := fmt.Sprintf("attempt 1 because\nends %d %[1]d\nwarned of 30 s\nsaved\nattempt 2 because time-limit\n", end.Add(-90*time.Second).Unix())
	if r.out.String() != want || len(receipt.Attempts) != 2 || receipt.Attempts[0].Cause != "time-limit" {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), want, receipt.Attempts, b.story(t, r.id))
	}
	r.forgotten()
}

// headNodeReplaced: with a restart left the loss of the head's node is the beginning of the next attempt, on another node.
func (b *bed) headNodeReplaced(t *testing.T) {
	s := b.spread("replaced", strings.Replace(attempts, "echo", "hostname; echo", 1))
	s.Job.Restarts.NodeFailure = 1
	r := b.begin(t, s, launcher.Payload{})
	running := r.until("running", jobRuns)
	b.copied(t, r.id, "attempt 1 because\n") // what the node has not let out yet is lost with it
	defer b.powerOff(t, running, "a-0")()
	receipt := r.ended(0, "succeeded", "")
	lines := strings.Split(r.out.String(), "\n")
	if len(lines) != 5 || lines[1] != "attempt 1 because" || lines[3] != "attempt 2 because lost" || lines[0] == lines[2] {
		t.Errorf("output %q\n%s", lines, b.story(t, r.id))
	}
	if a := receipt.Attempts; len(a) != 2 || a[0].Attempt != 1 || a[0].Cause != runstate.CauseLost || a[1].Attempt != 2 || a[1].Cause != "succeeded" {
		t.Errorf("attempts %+v\n%s", a, b.story(t, r.id))
	}
	r.forgotten()
}

// copied waits until the keeper's copy of the first attempt's output has this.
func (b *bed) copied(t *testing.T, id launcher.ID, text string) {
	t.Helper()
	b.Await(t, "the output "+text, func(context.Context) (bool, error) {
		log, err := os.ReadFile(filepath.Join(b.run(id), "1", keeper.DriverLog))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return strings.Contains(string(log), text), err
	})
}
