package conformance

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"testing"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher"
)

const (
	longOutput = `head -c 200000 /dev/zero | tr "\0" x; exit 3`
	longSize   = 200_000
	rays       = 4096 // more than the bytes of Ray's own lines in a log
)

var leftOut = regexp.MustCompile(`^(x+)\nrayctl: (\d+) bytes of the output are left out here \(lifetime.keepOutput\)\n(x+)$`)

// keepsJobs checks that a cluster's record has two jobs that were submitted to it: one that printed "kept", and one with longOutput, of which at most so many bytes are kept.
func (s *suite) keepsJobs(t *testing.T, r *launcher.Result, job, long string, most int64) {
	t.Helper()
	jobs, err := r.Jobs.List(s.context(t))
	if err != nil || len(jobs) != 2 || jobs[0].SubmissionID != job || jobs[1].SubmissionID != long { // the newest first
		t.Fatalf("kept jobs: %+v, %v", jobs, err)
	}
	if j := jobs[1]; jobs[0].Status != dashboardclient.JobSucceeded || j.Status != dashboardclient.JobFailed || j.DriverExitCode == nil || *j.DriverExitCode != 3 {
		t.Errorf("kept jobs: %+v", jobs)
	}
	if text := s.keptOutput(t, r, jobs[0]); text != "kept\n" {
		t.Errorf("kept output: %q", text)
	}
	text := s.keptOutput(t, r, jobs[1])
	parts := leftOut.FindStringSubmatch(text)
	if parts == nil {
		t.Fatalf("kept of a long output: %d bytes, %.200q ... %q", len(text), text, text[max(0, len(text)-200):])
	}
	gap, _ := strconv.ParseInt(parts[2], 10, 64)
	kept := int64(len(parts[1]) + len(parts[3]))
	if kept > most || kept < most-rays || kept+gap < longSize || kept+gap > longSize+rays {
		t.Errorf("kept of %d bytes: %d, and %d are said to be left out", longSize, kept, gap)
	}
}

// keptOutput is what is kept of a job's output. Ray's own lines may come before it and after it.
func (s *suite) keptOutput(t *testing.T, r *launcher.Result, job dashboardclient.Job) string {
	t.Helper()
	kept, cut, err := r.Jobs.Output(s.context(t), job.SubmissionID)
	if err != nil || cut {
		t.Fatalf("kept output of job %s: cut: %v, %v", job.SubmissionID, cut, err)
	}
	defer kept.Close()
	var text bytes.Buffer
	own := logstream.NewDriverOutput(&text, job.SubmissionID, job.Entrypoint)
	if _, err := io.Copy(own, kept); errors.Join(err, own.Flush()) != nil {
		t.Errorf("kept output of job %s: %v", job.SubmissionID, err)
	}
	return text.String()
}
