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
			"Ray cannot end a job that is PENDING before it starts the job: stop says what the job waits for, and what ends it earlier.\n" +
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
	waiting := unstarted(ctx, c, o.ids, tellAfter)
	for _, job := range waiting {
		a.UI.Note("job %s is PENDING: it waits for %s. Ray ends the job when it starts the job; before that %s", job.SubmissionID, job.WaitsFor(), endsUnstarted(c))
	}
	if o.noWait {
		return nil
	}
	if err := awaitStarted(ctx, c, waiting); err != nil {
		return err
	}
	for _, id := range o.ids {
		if err := awaitStopped(ctx, a, c, id); err != nil {
			return err
		}
	}
	return nil
}

// tellAfter is how long a job that is to be stopped may be PENDING before the user is told that it waits.
var tellAfter = time.Second

// startsWithin is how long stop waits for the start of such a job: Ray's request to stop waits for the process that is to start the driver, which may wait for
// resources, or for packages that are installed.
var startsWithin = time.Minute

// unstarted are those of the jobs that Ray has not started within that time.
func unstarted(ctx context.Context, c *app.Connection, ids []string, within time.Duration) (waiting []*dashboardclient.Job) {
	short, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for _, id := range ids {
		if err := c.AwaitStart(short, id); err == nil {
			continue
		}
		job, err := c.GetJob(ctx, id) // a slow dashboard may have answered nothing in that time
		if err == nil && job.Status == dashboardclient.JobPending {
			waiting = append(waiting, job)
		}
	}
	return waiting
}

// endsUnstarted is the next step for a job that Ray has not started and so cannot end.
func endsUnstarted(c *app.Connection) string {
	if c.Cluster() == nil {
		return "only the end of the cluster ends the job"
	}
	return "`rayctl down " + string(c.Cluster().ID) + "` ends the job with its cluster"
}

// awaitStarted waits until Ray has started the jobs, at which point it stops them; it waits startsWithin at most.
func awaitStarted(ctx context.Context, c *app.Connection, waiting []*dashboardclient.Job) error {
	var ids []string
	for _, job := range waiting {
		ids = append(ids, job.SubmissionID)
	}
	still := unstarted(ctx, c, ids, startsWithin)
	if len(still) == 0 {
		return nil
	}
	job := still[0]
	return launcher.Fail(runstate.CodeUnreachable, nil, endsUnstarted(c),
		"job %s is still PENDING and waits for %s: Ray ends the job when it starts the job", job.SubmissionID, job.WaitsFor())
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
	case app.Interrupted(ctx):
		a.UI.Clear()
		a.UI.Note("stopped waiting: Ray has the request to stop job %s, and `rayctl jobs%s %s` shows when it has ended", id, c.Flags(), id)
		return app.Exit(runstate.CodeInterrupted)
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
