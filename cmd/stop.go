package cmd

import (
	"context"

	"github.com/spf13/cobra"
)

type stopOptions struct {
	dashboard dashboardOptions
	ids       []string
	noWait    bool
}

func newStop(a *App) *cobra.Command {
	o := &stopOptions{}
	c := &cobra.Command{
		Use:     "stop JOB... [-c CLUSTER]",
		Short:   "Stop jobs of a cluster and wait until they ended",
		Long:    "stop sends the driver SIGTERM, and SIGKILL after the grace of the cluster (job.grace, Ray's default 3 s). A job that ended before is not an error.",
		Example: "  rayctl stop raysubmit_x1\n  rayctl stop -c dev raysubmit_x1 raysubmit_x2",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError("`rayctl jobs` lists them", "`rayctl stop` needs the id of a job")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			o.ids = args
			return a.action(func(ctx context.Context) error { return runStop(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.completeJobs,
	}
	o.dashboard.add(a, c)
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait until the jobs ended")
	return c
}

// runStop requests the end of every job first, then waits for all.
func runStop(ctx context.Context, a *App, o *stopOptions) error {
	c, err := a.connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.close()
	for _, id := range o.ids {
		if _, err := c.StopJob(ctx, id); err != nil {
			return err
		}
	}
	if o.noWait {
		return nil
	}
	for _, id := range o.ids {
		a.ui.live("stopping "+id, a.Now())
		job, err := c.WaitJob(ctx, id)
		if err != nil {
			return err
		}
		a.ui.clear()
		a.ui.note("job %s is %s", id, job.Status)
	}
	return nil
}
