package clusters

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/cmd/app/served"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestJobStates: a cluster shows its own job, or those that were submitted to it and run.
func TestJobStates(t *testing.T) {
	submissions := func(states ...runstate.JobState) launcher.Status {
		var s launcher.Status
		for _, state := range states {
			s.Submissions = append(s.Submissions, runstate.Submission{SubmissionID: "raysubmit_1", State: state, Entrypoint: "python a.py"})
		}
		return s
	}
	for want, s := range map[string]launcher.Status{
		"":                     {},
		"FAILED":               {Job: &runstate.Job{State: runstate.JobFailed}},
		"PENDING":              submissions(runstate.JobPending),
		"2 RUNNING":            submissions(runstate.JobRunning, runstate.JobRunning),
		"1 RUNNING, 1 PENDING": submissions(runstate.JobPending, runstate.JobRunning),
	} {
		if got := jobStates(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	a, _, _ := apptest.New()
	s := submissions(runstate.JobRunning)
	if row := clusterRow(a, s); row[4] != "RUNNING" {
		t.Errorf("ls: %q", row)
	}
	var text strings.Builder
	if err := printStatus(a, &text, served.Status{Status: s}, nil); err != nil || !strings.Contains(text.String(), "raysubmit_1 RUNNING python a.py") {
		t.Errorf("status: %v, %s", err, &text)
	}
}

// TestUnreachableOnce: of a substrate that does not answer ls says it once, not for each cluster.
func TestUnreachableOnce(t *testing.T) {
	a, _, stderr := apptest.New()
	away := launcher.Status{Launcher: "slurm", Unreachable: "Slurm does not answer"}
	warnUnreachable(a, []launcher.Status{away, {Launcher: "local"}, away})
	if strings.Count(stderr.String(), "Slurm does not answer") != 1 || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("stderr: %q", stderr)
	}
}
