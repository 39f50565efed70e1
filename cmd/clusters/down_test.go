package clusters

import (
	"context"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// lagging is a launcher whose keeper has not seen yet that jobs have ended: it looks at them every few seconds.
type lagging struct {
	*apptest.Launcher
	seen []runstate.Submission
}

func (l lagging) Watch(context.Context, launcher.ID) (<-chan launcher.Status, error) {
	statuses := make(chan launcher.Status, 1)
	statuses <- launcher.Status{Name: "dev", Phase: runstate.Ready, Submissions: l.seen}
	return statuses, nil
}

// TestDownAfterJobs: down names the jobs that it stops, and none that has just ended.
func TestDownAfterJobs(t *testing.T) {
	job := func(id string, state runstate.JobState) runstate.Submission {
		return runstate.Submission{SubmissionID: id, State: state}
	}
	ray := &apptest.Ray{}
	running := map[string]any{"type": "SUBMISSION", "submission_id": "b", "status": "RUNNING"}
	for _, c := range []struct {
		seen []runstate.Submission
		want string
	}{
		{[]runstate.Submission{job("a", runstate.JobRunning)}, "local cluster dev\nending dev\n"},
		{[]runstate.Submission{job("a", runstate.JobRunning), job("b", runstate.JobRunning)}, "cluster dev runs a job, which is stopped\n"},
		{[]runstate.Submission{job("c", runstate.JobPending), job("b", runstate.JobRunning)}, "cluster dev runs 2 jobs, which are stopped\n"},
	} {
		ray.Jobs = []map[string]any{ray.Job("a", "true"), running}
		apptest.Run(t, verbs, func() launcher.Launcher {
			return lagging{(&apptest.Launcher{Ray: ray}).With("dev"), c.seen}
		}, []apptest.Line{{Args: "down dev", Err: c.want}})
	}
}
