package clusters

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/cmd/app/served"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/history"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestEndRows: lifetime.idle does not read as if it ended a cluster that a job uses.
func TestEndRows(t *testing.T) {
	at, later, latest := apptest.Begin.Add(time.Hour), apptest.Begin.Add(2*time.Hour), apptest.Begin.Add(3*time.Hour)
	s := launcher.Status{Phase: runstate.Ready, Deadlines: runstate.Deadlines{Idle: &at, Max: &later}}
	text := func() string {
		var b strings.Builder
		for _, row := range endRows(io.Discard, s, apptest.Begin) {
			b.WriteString(strings.Join(row, " ") + "\n")
		}
		return b.String()
	}
	const limit = "or 2026-01-02T05:04:05Z (lifetime.max, in 2 h 0 min)\n"
	if want := "ends 2026-01-02T04:04:05Z if no job or request comes until then (lifetime.idle, in 1 h 0 min)\n" + limit; text() != want {
		t.Errorf("%q; want %q", text(), want)
	}
	s.Deadlines.Idle, s.Deadlines.IdleGPU = &latest, &latest // neither can come before lifetime.max
	if want := "ends 2026-01-02T05:04:05Z (lifetime.max, in 2 h 0 min)\n"; text() != want {
		t.Errorf("%q; want %q", text(), want)
	}
	if got, want := deadlineText(io.Discard, s), ", ends at 2026-01-02T05:04:05Z"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	s.Deadlines.Idle, s.Deadlines.IdleGPU = &at, nil
	s.Submissions = []runstate.Submission{{SubmissionID: "x", State: runstate.JobRunning}}
	if want := "ends at 2026-01-02T04:04:05Z at the earliest, as a job runs: lifetime.idle counts from the end of the last job or request\n" + limit; text() != want {
		t.Errorf("%q; want %q", text(), want)
	}
}

// TestEventLine: the commit, which the keeper notes without a message, is explained.
func TestEventLine(t *testing.T) {
	var table strings.Builder
	events := []runstate.Event{{At: apptest.Begin, Kind: "commit"}, {At: apptest.Begin, Kind: "phase", To: "Ready"}}
	if err := eventTable(&table, events); err != nil {
		t.Fatal(err)
	}
	const message = "from here on the cluster does not need the client that launched it"
	if line := eventLine(io.Discard, events[0]); !strings.HasSuffix(line, " "+message) || strings.Count(table.String(), message) != 1 {
		t.Errorf("%q, %q", line, table.String())
	}
}

// TestEndedJobs: status and history show what was submitted to a cluster without a job of its own.
func TestEndedJobs(t *testing.T) {
	jobs := &runstate.EndedSubmissions{Count: 1, Succeeded: 0, Last: runstate.Submission{State: runstate.JobFailed, Entrypoint: "python a.py"}}
	if got, want := command(history.Past{Jobs: jobs}), "1 job (failed): python a.py"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	jobs.Count, jobs.Succeeded = 3, 2
	a, out, _ := apptest.New()
	if err := printStatus(a, out, served.Status{Status: launcher.Status{Name: "x", EndedSubmissions: jobs}}, nil); err != nil {
		t.Fatal(err)
	}
	if want := "ended jobs   3 jobs (2 succeeded), the last: python a.py\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q, want %q", out, want)
	}
	if got := command(history.Past{Command: "python b.py", Jobs: jobs}); got != "python b.py" {
		t.Errorf("of a run: %q", got)
	}
}

// TestPassedStates: status -w also prints what passed between two statuses.
func TestPassedStates(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := launcher.Status{Phase: runstate.Draining, Job: &runstate.Job{State: runstate.JobSucceeded}, Timeline: []runstate.Event{
		{At: at, Kind: runstate.EventPhase, To: string(runstate.Ready)},
		{At: at, Kind: runstate.EventJob, To: string(runstate.JobRunning)},
		{At: at, Kind: runstate.EventNode, To: runstate.NodeAlive},
		{At: at, Kind: runstate.EventJob, To: string(runstate.JobSucceeded)},
		{At: at, Kind: runstate.EventPhase, To: string(runstate.Draining)},
	}}
	for seen, want := range map[int]string{0: "2026-01-02T03:04:05Z  Ready\n2026-01-02T03:04:05Z  job RUNNING\n", 1: "2026-01-02T03:04:05Z  job RUNNING\n", 2: "", 9: ""} {
		a, out, _ := apptest.New()
		if err := printPassed(a, s, seen); err != nil || out.String() != want {
			t.Errorf("%d seen: %v, %q", seen, err, out)
		}
	}
}
