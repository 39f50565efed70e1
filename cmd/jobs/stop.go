package jobs

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type stopOptions struct {
	dashboard app.DashboardFlags
	ids       []string
	noWait    bool
}

// NewStop is `rayctl stop`.
func NewStop(a *app.App) *cobra.Command {
	o := &stopOptions{}
	c := &cobra.Command{
		Use:     "stop [NAME] [JOB...]",
		Aliases: []string{"cancel"},
		Short:   "Stop jobs of a cluster, and wait until they have ended",
		Long: "stop sends the driver SIGTERM, and SIGKILL after the grace of the cluster (job.grace, Ray's default 3 s). A job that ended before is not an error.\n" +
			"Without JOB it stops the run's own job, or the only job that runs on the cluster. NAME is the name of a cluster or run, as in `rayctl logs NAME`.",
		Example: "  rayctl stop grpo-x1f3a\n  rayctl stop raysubmit_x1\n  rayctl stop dev raysubmit_x1 raysubmit_x2\n  rayctl stop -c dev raysubmit_x1",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.ids = args
			return a.Action(func(ctx context.Context) error { return runStop(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: completeClusterThenJob(a),
	}
	o.dashboard.Add(a, c)
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait until the jobs have ended")
	return c
}

// runStop requests the end of every job first, then waits for all.
func runStop(ctx context.Context, a *app.App, o *stopOptions) error {
	var err error
	if o.ids, err = a.ClusterFirst(ctx, &o.dashboard, o.ids); err != nil {
		return err
	}
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	if len(o.ids) == 0 {
		id, err := meantJob(ctx, c)
		if err != nil {
			return err
		}
		o.ids = []string{id}
	}
	for _, id := range o.ids {
		_, err := c.StopJob(ctx, id)
		switch {
		case errors.Is(err, dashboardclient.ErrNotFound):
			return launcher.Fail(runstate.CodeSpec, err, "`rayctl jobs"+c.Flags()+"` lists the jobs, `rayctl ls` the clusters", "there is no job or cluster %q", id)
		case err != nil:
			return err
		}
	}
	if o.noWait {
		return nil
	}
	if err := refuseUnstarted(ctx, a, c, o.ids); err != nil {
		return err
	}
	for _, id := range o.ids {
		if err := awaitStopped(ctx, a, c, id); err != nil {
			return err
		}
	}
	return nil
}

// startsWithin is how long a job that is to be stopped may be PENDING: Ray's request to stop waits for the process that is to start the driver, which may wait for
// resources, or for packages that are installed.
var startsWithin = time.Minute

// tellAfter is when the user is told that such a job waits.
var tellAfter = 2 * time.Second

// refuseUnstarted names what ends a job that Ray cannot stop yet.
func refuseUnstarted(ctx context.Context, a *app.App, c *app.Connection, ids []string) error {
	for _, id := range ids {
		if !stillPending(ctx, c, id, tellAfter) {
			continue // awaitStopped has the error
		}
		a.UI.Note("job %s waits for resources or for its environment; Ray stops it when it starts it", id)
		if !stillPending(ctx, c, id, startsWithin) {
			continue
		}
		hint := "`rayctl status" + c.Flags() + "` shows what it waits for"
		if c.Cluster() != nil {
			hint = "`rayctl down " + string(c.Cluster().ID) + "` ends the cluster and the job at once"
		}
		return launcher.Fail(runstate.CodeUnreachable, nil, hint,
			"job %s waits for resources or for its environment: Ray has the request and stops the job when it starts it, and cannot end it before", id)
	}
	return nil
}

// stillPending reports whether Ray has not started a job within that time.
func stillPending(ctx context.Context, c *app.Connection, id string, within time.Duration) bool {
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := c.AwaitStart(short, id); err == nil || ctx.Err() != nil {
		return false
	}
	job, err := c.GetJob(ctx, id) // a slow dashboard may have answered nothing in that time
	return err == nil && job.Status == dashboardclient.JobPending
}

// lookAfter is when a stopped job is suspected to have ended with its cluster: a run's cluster ends with its job.
const lookAfter = 2 * time.Second

const killedText = "job %s is %s: its driver had not ended when its grace after SIGTERM was over, and Ray killed it. --grace or job.grace of the cluster gives it longer"

// awaitStopped waits until a job has ended, or its cluster has.
func awaitStopped(ctx context.Context, a *app.App, c *app.Connection, id string) error {
	a.UI.Live("stopping "+id, a.Now())
	defer a.UI.Clear()
	alive, look, stop := c.AwaitEnd(ctx)
	defer stop()
	defer time.AfterFunc(lookAfter, look).Stop()
	job, err := c.WaitJob(alive, id)
	switch {
	case err == nil:
		a.UI.Clear()
		if c.Killed(ctx, job) || toldKilled(ctx, c, id) {
			a.UI.Warn(killedText, id, job.Status)
			return nil
		}
		a.UI.Note("job %s is %s", id, job.Status)
	case errors.Is(context.Cause(alive), launcher.ErrEnded):
		a.UI.Clear()
		a.UI.Note("job %s has ended, and cluster %s with it", id, c.Cluster().ID)
		if toldKilled(ctx, c, id) {
			a.UI.Warn(killedText, id, dashboardclient.JobStopped)
		}
	default:
		return err
	}
	return nil
}

// toldKilled reports whether the cluster's result shows that Ray killed the driver. The cluster ends with this job, and its Ray may have ended already
// (keeper/rayctl_keeper/driver/killed.py).
func toldKilled(ctx context.Context, c *app.Connection, id string) bool {
	if c.Cluster() == nil {
		return false
	}
	s, err := c.Cluster().Status(ctx)
	if err != nil || s.Job == nil || s.Job.SubmissionID != id {
		return false
	}
	said := s.Reason.Message
	if s.Exit != nil {
		said += s.Exit.Message
	}
	return strings.Contains(said, "Ray killed it")
}

// meantJob is the job that is meant without an id: the run's own while it runs (job.prepare before it), else the only one that runs.
func meantJob(ctx context.Context, c *app.Connection) (string, error) {
	if c.Cluster() != nil {
		s, err := c.Cluster().Status(ctx)
		if err != nil {
			return "", err
		}
		switch {
		case s.Job.Preparing():
			return s.Job.Prepare.SubmissionID, nil // Ray has no driver yet
		case s.Job != nil && s.Job.SubmissionID != "" && !s.Job.State.Terminal():
			return s.Job.SubmissionID, nil
		}
	}
	jobs, err := c.ListJobs(ctx)
	if err != nil {
		return "", err
	}
	var running []string
	for i := range jobs {
		if j := &jobs[i]; j.SubmissionID != "" && !j.Status.Terminal() {
			running = append(running, j.SubmissionID)
		}
	}
	switch len(running) {
	case 0:
		return "", launcher.Fail(runstate.CodeSpec, nil, "`rayctl jobs"+c.Flags()+"` lists them, `rayctl down` ends a cluster", "no job is running")
	case 1:
		return running[0], nil
	default:
		return "", app.UsageError("choose one with `rayctl stop"+c.Flags()+" JOB`", "More than one job is running: %s", strings.Join(running, ", "))
	}
}
