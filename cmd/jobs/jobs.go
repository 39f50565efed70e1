package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type jobsOptions struct {
	dashboard app.DashboardFlags
	job       string
	output    app.Output
}

// NewJobs is `rayctl jobs`.
func NewJobs(a *app.App) *cobra.Command {
	c := newJobList(a)
	addJobVerbs(a, c)
	return c
}

func newJobList(a *app.App) *cobra.Command {
	o := &jobsOptions{}
	c := &cobra.Command{
		Use:     "jobs [CLUSTER] [ID]",
		Aliases: []string{"job"},
		Short:   "List the jobs of a cluster, the newest first, or show one",
		Long: "jobs lists the jobs that Ray knows: the run's own job, submitted jobs, and programs that connected with ray.init(). With ID it shows one job in detail.\n" +
			"On this machine and on Slurm a cluster that has ended still has the jobs that were submitted to it.",
		Example: "  rayctl jobs\n  rayctl jobs dev -o json\n  rayctl jobs raysubmit_x1\n  rayctl jobs --address http://127.0.0.1:8265",
		Args:    app.NoDash(2, "a cluster and a job"),
		RunE: func(c *cobra.Command, args []string) error {
			var err error
			if o.job, err = clusterAndJob(&o.dashboard, args); err != nil {
				return err
			}
			return a.Action(func(ctx context.Context) error { return runJobs(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: completeClusterThenJob(a),
	}
	o.dashboard.Add(a, c)
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName, app.FormatWide)
	return c
}

// runJobs lists the jobs, or shows one.
func runJobs(ctx context.Context, a *app.App, o *jobsOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, cluster, err := a.ConnectFound(ctx, &o.dashboard)
	if errors.Is(err, launcher.ErrEnded) {
		return keptJobs(ctx, a, o, cluster, err)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if o.job != "" {
		j, err := c.GetJob(ctx, o.job)
		if err != nil {
			return err
		}
		return showJob(a, o, j)
	}
	jobs, err := c.ListJobs(ctx)
	switch {
	case errors.Is(err, dashboardclient.ErrNotFound):
		return launcher.Fail(runstate.CodeUnreachable, err, "check the address", "what answers at %s is not a Ray dashboard", c.URL())
	case err != nil:
		return err
	}
	return showJobs(a, o, jobs)
}

// showJobs prints a list of jobs.
func showJobs(a *app.App, o *jobsOptions, jobs []dashboardclient.Job) error {
	if done, err := o.output.Structured(a.Out, documentsOf(jobs)); done || err != nil {
		return err
	}
	rows := [][]string{{"ID", "STATUS", "STARTED", "TOOK", "COMMAND"}}
	if o.output.Format == app.FormatWide {
		rows[0] = append(rows[0], "TYPE", "MESSAGE")
	}
	for i := range jobs {
		j := &jobs[i]
		if o.output.Format == app.FormatName {
			fmt.Fprintln(a.Out, terminal.OneLine(app.JobName(j)))
			continue
		}
		row := []string{app.JobName(j), string(j.Status), terminal.Stamp(a.Out, j.StartTime), took(a.Now(), j), terminal.Shorten(driverio.UserCommand(j.Entrypoint), o.output.Format == app.FormatWide)}
		if o.output.Format == app.FormatWide {
			row = append(row, j.Type, j.Message)
		}
		rows = append(rows, row)
	}
	switch {
	case o.output.Format == app.FormatName:
		return nil
	case len(jobs) == 0:
		a.UI.Note("there is no job")
		return nil
	}
	return terminal.Table(a.Out, rows)
}

func took(now time.Time, j *dashboardclient.Job) string {
	if j.StartTime.IsZero() {
		return "-"
	}
	end := j.EndTime
	if end.IsZero() {
		end = now
	}
	return launcher.Human(max(end.Sub(j.StartTime).Seconds(), 0))
}
