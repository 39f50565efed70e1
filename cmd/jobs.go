package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type jobsOptions struct {
	dashboard dashboardOptions
	output    output
}

func newJobs(a *App) *cobra.Command {
	o := &jobsOptions{}
	c := &cobra.Command{
		Use:               "jobs [CLUSTER]",
		Short:             "List the jobs of a cluster, the newest first",
		Example:           "  rayctl jobs\n  rayctl jobs dev -o json\n  rayctl jobs --address http://127.0.0.1:8265",
		Args:              noDash(1, "one cluster"),
		RunE:              a.onCluster(&o.dashboard, func(ctx context.Context) error { return runJobs(ctx, a, o) }),
		ValidArgsFunction: a.completeClusters,
	}
	o.dashboard.add(a, c)
	o.output.add(c, formatJSON, formatYAML, formatName, formatWide)
	return c
}

// runJobs lists the jobs.
func runJobs(ctx context.Context, a *App, o *jobsOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	c, err := a.connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.close()
	jobs, err := c.ListJobs(ctx)
	switch {
	case errors.Is(err, dashboardclient.ErrNotFound):
		return launcher.Fail(runstate.CodeUnreachable, err, "check the address", "what answers at %s is not a Ray dashboard", c.URL())
	case err != nil:
		return err
	}
	if done, err := o.output.structured(a.Out, nonNil(jobs)); done || err != nil {
		return err
	}
	rows := [][]string{{"ID", "STATUS", "STARTED", "TOOK", "ENTRYPOINT"}}
	if o.output.format == formatWide {
		rows[0] = append(rows[0], "TYPE", "MESSAGE")
	}
	for i := range jobs {
		j := &jobs[i]
		if o.output.format == formatName {
			fmt.Fprintln(a.Out, clean(jobName(j)))
			continue
		}
		row := []string{jobName(j), string(j.Status), stamp(j.StartTime), took(a.Now(), j), shorten(j.Entrypoint, o.output.format == formatWide)}
		if o.output.format == formatWide {
			row = append(row, j.Type, j.Message)
		}
		rows = append(rows, row)
	}
	switch {
	case o.output.format == formatName:
		return nil
	case len(jobs) == 0:
		a.ui.note("there is no job")
		return nil
	}
	return table(a.Out, rows)
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

// shorten keeps a table in shape.
func shorten(s string, wide bool) string {
	r := []rune(oneLine(s))
	if wide || len(r) <= 60 {
		return string(r)
	}
	return string(r[:59]) + "…"
}
