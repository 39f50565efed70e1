//go:build linux

package slurm_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
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

// waitsAgain is a run whose job waits for its next attempt.
func waitsAgain(attempt int) func(launcher.Status) bool {
	return func(s launcher.Status) bool {
		return s.Phase == runstate.Queued && s.Attempt == attempt && s.Reason.Message != ""
	}
}

// preempted: a job comes back as the next attempt, with the same output directory and the cause in its environment, when somebody queues it again, when Slurm has
// warned it, which gives the driver its grace, and when a job of higher priority takes the nodes. There the run's status is waiting, and it goes on when it has
// nodes again; a client that begins to watch only then gets the output of all attempts in their order.
func (b *bed) preempted(t *testing.T) {
	g := b.gate(t)
	s := b.named("yields", `[ $RAYCTL_ATTEMPT != 2 ] || trap 'echo saving; sleep 2; echo saved; exit 0' TERM
echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON in $RAYCTL_OUTPUT_DIR
case $RAYCTL_ATTEMPT in
2) sleep 600 & wait;;
1|3) exec sleep 600;;
esac
`+g.wait())
	s.Lifetime.Queue, s.Lifetime.Max = units.Limit(time.Hour), units.Limit(10*time.Hour) // the end is far: a warning is of preemption
	s.Job.Grace = durationPtr(time.Minute)
	output := filepath.Join(b.run("yields"), "output")
	want := []string{"attempt 1 because in " + output}
	for _, line := range []string{"attempt 2", "saving", "saved", "attempt 3", "attempt 4"} {
		if strings.HasPrefix(line, "attempt") {
			line += " because preempted in " + output
		}
		want = append(want, line)
	}
	r := b.begin(t, s, launcher.Payload{})
	driving := func(attempt int, line string) (job string) {
		st := r.until("running", func(s launcher.Status) bool { return s.Attempt == attempt && jobRuns(s) && s.Phase == runstate.Ready })
		b.copied(t, r.id, line+"\n")
		return strings.TrimPrefix(st.Where, "job ")
	}
	if _, err := b.Slurm(t.Context(), "scontrol", "requeue", driving(1, want[0])); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Slurm(t.Context(), "scancel", "--batch", "--signal=USR1", driving(2, want[1])); err != nil {
		t.Fatal(err)
	}
	driving(3, want[4])
	release := b.preempt(t)
	r.until("waiting again", waitsAgain(4))
	listed, err := r.l.List(t.Context(), launcher.Selector{Names: []string{"yields"}})
	if err != nil || len(listed) != 1 || !waitsAgain(4)(listed[0]) {
		t.Errorf("listed: %+v, %v", listed, err)
	}
	release()
	late := bufio.NewScanner(b.attach(t, r.id))
	for _, line := range want {
		if !late.Scan() || late.Text() != line {
			t.Errorf("who came late sees %q, want %q", late.Text(), line)
		}
	}
	g.open()
	receipt := r.ended(0, "succeeded", "")
	var causes []string
	for _, a := range receipt.Attempts {
		causes = append(causes, a.Cause)
	}
	if all := strings.Join(want, "\n") + "\n"; r.out.String() != all || !slices.Equal(causes, []string{"preempted", "preempted", "preempted", "succeeded"}) {
		t.Errorf("output %q, want %q; attempts %+v\n%s", r.out.String(), all, receipt.Attempts, b.story(t, r.id))
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
	ended, cancelled := b.begin(t, b.named("between-down", attempts), launcher.Payload{}), b.begin(t, b.named("between-scancel", attempts), launcher.Payload{})
	for _, r := range []*begun{ended, cancelled} {
		r.until("running", jobRuns)
	}
	release := b.preempt(t)
	defer release()
	for _, r := range []*begun{ended, cancelled} {
		r.until("waiting again", waitsAgain(2))
	}
	b.scancel(t, cancelled.id)
	b.down(t, ended.l, ended.id)
	ended.ended(runstate.CodeInterrupted, "down", "")
	cancelled.ended(runstate.CodeInterrupted, "interrupted", "")
	ended.forgotten()
	cancelled.forgotten()
}

// timeLimit: Slurm's own limit of the job is known to the driver from the beginning, becomes Ray's drain and gives the driver its grace, and the next
// attempt goes on.
func (b *bed) timeLimit(t *testing.T) {
	s := b.named("limited", `echo attempt $RAYCTL_ATTEMPT because $RAYCTL_RESTART_REASON; [ $RAYCTL_ATTEMPT != 1 ] || exec python -c `+shellescape.Quote(conformance.WarnedProgram))
	s.Sections = slurmspec.In(&slurmspec.Section{Group: slurmspec.Group{ExtraArgs: []string{"--time=7"}}}) // Slurm warns a minute and the grace before, and up to a minute earlier; a start of Ray may take minutes
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

// copied waits until the keeper's copy of an attempt's output has this.
func (b *bed) copied(t *testing.T, id launcher.ID, text string) {
	t.Helper()
	b.Await(t, "the output "+text, func(context.Context) (bool, error) {
		logs, err := filepath.Glob(filepath.Join(b.run(id), "*", "driver*.log"))
		for _, name := range logs {
			log, err := os.ReadFile(name) // one that is put aside meanwhile is found by its new name
			if err == nil && strings.Contains(string(log), text) {
				return true, nil
			}
		}
		return false, err
	})
}
