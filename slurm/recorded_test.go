//go:build linux

package slurm_test

import (
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
)

// oneCompanion: the cluster has one companion job, which is that of its status, and not that of an attempt before.
func (b *bed) oneCompanion(t *testing.T, now, before launcher.Status) {
	t.Helper()
	jobs, err := b.Slurm(t.Context(), "squeue", "--noheader", "--array", "--states=PENDING,RUNNING,COMPLETING", "--format=%i %j")
	if err != nil {
		t.Fatal(err)
	}
	var companions []string
	for line := range strings.Lines(jobs) {
		if number, name, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(name, now.Name+"-elastic-") {
			companions = append(companions, number)
		}
	}
	if want := job(last(now)); !slices.Equal(companions, []string{want}) || want == job(last(before)) {
		t.Errorf("companion jobs %q, want %s, which has followed %s", companions, want, job(last(before)))
	}
}

// recorded is the output in the record of a run that has ended, of all attempts, without Ray's own lines.
func (b *bed) recorded(t *testing.T, l launcher.Launcher, id launcher.ID) string {
	t.Helper()
	result, err := l.Result(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for n := 1; n <= result.Attempt; n++ {
		which, submission, begin := n, result.Job.SubmissionID, result.Job.LogBegin
		if n == result.Attempt {
			which = 0
		}
		for _, a := range result.Attempts {
			if a.Attempt == n && a.SubmissionID != "" {
				submission, begin = a.SubmissionID, a.LogBegin
			}
		}
		log, err := result.OpenLog(t.Context(), which, 0)
		if err != nil {
			t.Fatal(err)
		}
		own := driverio.NewAttemptOutput(&out, result.Job, submission, begin)
		_, err = io.Copy(own, log)
		if err := errors.Join(err, own.Flush(), log.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}

// linesOf are the lines that begin so.
func linesOf(begin, text string) (found string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, begin) {
			found += line
		}
	}
	return found
}

// asSlurmCounts: the receipt's node-seconds are those of all jobs of the cluster, within three seconds a job.
func (b *bed) asSlurmCounts(t *testing.T, result *launcher.Result) {
	t.Helper()
	out, err := b.Slurm(t.Context(), "squeue", "--noheader", "--array", "--states=all", "--format=%j|%D|%S|%e")
	if err != nil {
		t.Fatal(err)
	}
	jobs, seconds := 0.0, 0.0
	for line := range strings.Lines(out) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if fields[0] != result.Name && !strings.HasPrefix(fields[0], result.Name+"-elastic-") {
			continue
		}
		nodes, err := strconv.Atoi(fields[1])
		start, err1 := time.Parse("2006-01-02T15:04:05", fields[2])
		end, err2 := time.Parse("2006-01-02T15:04:05", fields[3])
		if err := errors.Join(err, err1, err2); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		jobs, seconds = jobs+1, seconds+float64(nodes)*end.Sub(start).Seconds()
	}
	if got := launcher.NewReceipt(result).Usage.NodeSeconds; jobs < 3 || math.Abs(got-seconds) > 3*jobs {
		t.Errorf("%.1f node-seconds in the receipt, %.1f of %.0f jobs:\n%s", got, seconds, jobs, out)
	}
}
