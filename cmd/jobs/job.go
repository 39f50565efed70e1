package jobs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher/driverio"
)

// otherJobVerbs are the verbs of `ray job` for which rayctl has a verb of its own.
var otherJobVerbs = map[string]string{
	"submit": "`rayctl submit -- COMMAND` submits a job and follows it",
	"status": "`rayctl jobs ID` shows a job, `rayctl logs -f ID` follows it",
	"logs":   "`rayctl logs JOB` shows the output of a job, with -f until its end",
}

// addJobVerbs adds the verbs below jobs, so that `rayctl job list` and `rayctl job stop` work as those of `ray job` do.
func addJobVerbs(a *app.App, jobs *cobra.Command) {
	list := newJobList(a)
	list.Use, list.Aliases, list.Hidden = "list [CLUSTER]", []string{"ls"}, true
	stop := NewStop(a)
	stop.Hidden = true
	jobs.AddCommand(newJobsDelete(a), list, stop)
	for word, hint := range otherJobVerbs {
		jobs.AddCommand(app.OtherVerb(word, hint))
	}
}

// clusterAndJob distinguishes CLUSTER and ID. With --cluster or --address the only argument is the job, and so is one that cannot be a cluster's name,
// such as the ids that Ray and rayctl make.
func clusterAndJob(o *app.DashboardFlags, args []string) (job string, err error) {
	elsewhere := o.Cluster != "" || o.Address != "" || len(args) == 1 && app.IsJobID(args[0])
	switch {
	case len(args) == 2:
		return args[1], o.FromArgument(args[:1])
	case len(args) == 1 && elsewhere:
		return args[0], nil
	case len(args) == 1:
		o.Cluster = args[0]
	}
	return "", nil
}

// showJob prints one job.
func showJob(a *app.App, o *jobsOptions, j *dashboardclient.Job) error {
	if done, err := o.output.Structured(a.Out, documentOf(j)); done || err != nil {
		return err
	}
	if o.output.Format == app.FormatName {
		_, err := fmt.Fprintln(a.Out, terminal.OneLine(app.JobName(j)))
		return err
	}
	return printJob(a.Out, took(a.Now(), j), j)
}

func printJob(w io.Writer, took string, j *dashboardclient.Job) error {
	rows := [][]string{{"job", app.JobName(j)}, {"status", string(j.Status)}, {"command", driverio.UserCommand(j.Entrypoint)}}
	add := func(key, value string) {
		if value != "" && value != "-" {
			rows = append(rows, []string{key, value})
		}
	}
	add("waits for", j.WaitsFor())
	message, rest, _ := strings.Cut(strings.TrimRight(j.Message, "\n"), "\n")
	add("message", message)
	if j.DriverExitCode != nil {
		add("exit code", strconv.Itoa(app.ShellCode(*j.DriverExitCode)))
	}
	add("started", terminal.Stamp(w, j.StartTime))
	add("ended", terminal.Stamp(w, j.EndTime))
	add("took", took)
	var metadata []string
	for k, v := range j.Metadata {
		if !strings.HasPrefix(k, "rayctl.") {
			metadata = append(metadata, k+"="+v)
		}
	}
	slices.Sort(metadata)
	add("metadata", strings.Join(metadata, " "))
	if err := terminal.Table(w, rows); err != nil || rest == "" {
		return err
	}
	_, err := fmt.Fprintln(w, "  "+strings.ReplaceAll(terminal.Clean(rest), "\n", "\n  ")) // what Ray shows of the output, such as a traceback
	return err
}

type deleteOptions struct {
	dashboard app.DashboardFlags
	ids       []string
}

// newJobsDelete is `rayctl jobs delete`.
func newJobsDelete(a *app.App) *cobra.Command {
	o := &deleteOptions{}
	c := &cobra.Command{
		Use:     "delete [CLUSTER] ID...",
		Aliases: []string{"rm"},
		Short:   "Remove ended jobs from Ray's list",
		Long:    "delete makes Ray forget jobs that have ended, as `ray job delete` does. If a job still runs, stop it first with `rayctl stop`.",
		Example: "  rayctl jobs delete raysubmit_x1\n  rayctl jobs delete -c dev raysubmit_x1 raysubmit_x2",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.ids = args
			return a.Action(func(ctx context.Context) error { return runDelete(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: completeClusterThenJob(a),
	}
	o.dashboard.Add(a, c)
	return c
}

// runDelete deletes every job that can be deleted; the errors of the others are joined.
func runDelete(ctx context.Context, a *app.App, o *deleteOptions) error {
	var err error
	if o.ids, err = a.ClusterFirst(ctx, &o.dashboard, o.ids); err != nil {
		return err
	}
	if len(o.ids) == 0 {
		return app.UsageError("`rayctl jobs` lists them", "`rayctl jobs delete` needs the id of a job")
	}
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	var failed []error
	for _, id := range o.ids {
		if err := c.DeleteJob(ctx, id); err != nil {
			failed = append(failed, err)
			continue
		}
		a.UI.Note("job %s is deleted", id)
	}
	return errors.Join(failed...)
}
