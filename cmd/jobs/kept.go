package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/logstream"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// keptJobs shows the jobs that were submitted to a cluster which has ended, as far as its record has them; else why is the error.
func keptJobs(ctx context.Context, a *app.App, o *jobsOptions, c *app.Cluster, why error) error {
	if o.job != "" {
		j, err := c.KeptJob(ctx, o.job)
		if err != nil {
			return err
		}
		return showJob(a, o, j)
	}
	r, err := c.Result(ctx)
	if err != nil {
		return why
	}
	jobs, err := r.Jobs.List(ctx)
	switch {
	case err != nil:
		return err
	case len(jobs) == 0 && r.Job != nil:
		return why
	case len(jobs) == 0:
		return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, fmt.Sprintf("`rayctl status %s` shows what its record has", c.ID), "cluster %s has ended, and its record has no job that was submitted to it", c.ID)
	}
	return showJobs(a, o, jobs)
}

// keptLogs shows what is kept of the output of a job that was submitted to a cluster which has ended: of o.job, or of the newest.
func keptLogs(ctx context.Context, a *app.App, o *logsOptions, c *app.Cluster, r *launcher.Result) error {
	jobs, err := r.Jobs.List(ctx)
	if err != nil {
		return err
	}
	job := dashboardclient.Job{SubmissionID: o.job}
	switch i := slices.IndexFunc(jobs, func(j dashboardclient.Job) bool { return j.SubmissionID == o.job }); {
	case i >= 0:
		job = jobs[i]
	case o.job == "" && len(jobs) > 0:
		job = jobs[0]
		a.UI.Note("job %s (the newest)", job.SubmissionID)
	case o.job == "":
		a.UI.Note("cluster %s had no job of its own, and none that was submitted to it is kept", c.ID)
		return nil
	}
	output, cut, err := r.Jobs.Output(ctx, job.SubmissionID)
	if errors.Is(err, fs.ErrNotExist) {
		return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "lifetime.keepOutput and keepOutputTotal of the next cluster can keep more; what a lost node had is lost, and a run on Kubernetes keeps its own output alone",
			"cluster %s has ended, and the output of job %s is not kept", c.ID, job.SubmissionID)
	}
	if err != nil {
		return err
	}
	output.Close()
	if cut {
		a.UI.Warn("Only the end of the output of job %s is kept", job.SubmissionID)
	}
	open := func(ctx context.Context, _ int, _ int64) (io.ReadCloser, error) {
		output, _, err := r.Jobs.Output(ctx, job.SubmissionID)
		return output, err
	}
	own := logstream.NewDriverOutput(o.out, job.SubmissionID, job.Entrypoint)
	if err := errors.Join(tailLog(ctx, own, &launcher.Status{}, open, 0, o.tail, 0), own.Flush()); err != nil {
		return err
	}
	if !o.follow || !job.Status.Terminal() {
		return nil
	}
	return app.JobOutcome(a, &job, "")
}
