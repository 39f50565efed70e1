package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type logsOptions struct {
	dashboard  app.DashboardFlags
	job        string
	sole       bool // the cluster is the only argument, which may have been meant for a job
	follow     bool
	tail       int
	attempt    int
	node, file string
	rank       int
	prepares   bool // the output begins with that of job.prepare
	ranks      bool // the output is that of ranks
	rankFiles  string
	out        io.Writer // the output of the UI, or a pager
	only       io.Writer
}

// to is where the output goes, in which --rank leaves one rank's, and which has colours for ranks on a terminal.
func (o *logsOptions) to(a *app.App) io.Writer {
	if o.only == nil {
		o.only = app.OfRanks(o.out, o.rank, o.prepares, o.ranks && a.UI.ColorsOutput())
	}
	return o.only
}

// intoFiles runs show, whose output goes to a file for each rank.
func (o *logsOptions) intoFiles(a *app.App, show func() error) error {
	files, err := driverio.NewRankFiles(o.rankFiles, o.out, o.prepares)
	if err != nil {
		return rankFilesError(err)
	}
	o.only = files
	err = show()
	if closed := files.Close(); err == nil {
		err = closed
	}
	return rankFilesError(err)
}

func rankFilesError(err error) error {
	if _, isFile := errors.AsType[*fs.PathError](err); !isFile {
		return err
	}
	return launcher.Fail(runstate.CodeSpec, err, "name a directory in which you can make files, and that has no files of ranks yet", "--rank-files: %v", err)
}

// NewLogs is `rayctl logs`.
func NewLogs(a *app.App) *cobra.Command {
	o := &logsOptions{}
	c := &cobra.Command{
		Use:     "logs [NAME] [JOB] [-f]",
		Aliases: []string{"log"},
		Short:   "Show a driver's output, also after its cluster has ended",
		Long: "logs shows the output of a run's job.prepare and then of its driver, byte for byte, also after its cluster has ended. With JOB it shows the output of that job. For a cluster\n" +
			"without a job of its own it shows the output of the newest job. After the cluster's end the output of submitted jobs is kept, too, 8 MiB of each\n" +
			"(lifetime.keepOutput). With -f it follows until the end and exits with the driver's exit code. --node and --file show Ray's own logs,\n" +
			"which the node's agent serves: of the raylet, the agents and the workers.\n" +
			"In place of NAME it takes the directory of a run that another user shares (job.shareDir).",
		Example: "  rayctl logs -f\n  rayctl logs grpo-x1f3a --tail 100\n  rayctl logs raysubmit_x1\n  rayctl logs dev raysubmit_x1 -f\n" +
			"  rayctl logs pretrain --rank-files ranks   # ranks/rank-0.log ...\n  rayctl logs dev --node trainer-1                      # lists its files\n  rayctl logs dev --node trainer-1 --file raylet.err",
		Args: app.NoDash(2, "a cluster and a job"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.arguments(args); err != nil {
				return err
			}
			return a.Action(func(ctx context.Context) error {
				if o.follow {
					o.out = a.UI.Output()
					return showLogs(ctx, a, o)
				}
				return a.Paged(func(w io.Writer) error {
					o.out = w
					return showLogs(ctx, a, o)
				})
			})(c, args)
		},
		ValidArgsFunction: completeClusterThenJob(a),
	}
	f := c.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "follow until the end, and exit with the driver's exit code")
	f.IntVarP(&o.tail, "tail", "n", 0, "begin `N` lines before the end")
	f.IntVar(&o.attempt, "attempt", 0, "show attempt `N` of a run that was restarted (default: the last)")
	f.IntVar(&o.rank, "rank", app.AllRanks, "show the output of rank `N` alone, of a command that runs on every node (job.launch)")
	f.Lookup("rank").DefValue = "0" // the help would show -1; it shows no 0
	f.StringVar(&o.rankFiles, "rank-files", "", "write what each rank has written into a file of its own, `DIR`/rank-N.log, and show the rest")
	f.StringVar(&o.node, "node", "", "list Ray's own logs of this `NODE`, by name or id; --file shows one")
	a.CompleteNodes(c)
	f.StringVar(&o.file, "file", "", "the log `FILE` of --node")
	o.dashboard.Add(a, c)
	return c
}

// arguments checks the flags and distinguishes NAME and JOB.
func (o *logsOptions) arguments(args []string) error {
	if o.tail < 0 || o.attempt < 0 {
		return app.UsageError("give a number from 1, or leave the flag out", "--tail and --attempt cannot be negative")
	}
	if err := app.CheckRank(o.rank, o.rankFiles, o.node == "" && o.tail == 0); err != nil {
		return err
	}
	if o.attempt > 0 && (o.node != "" || o.dashboard.Address != "") {
		return app.UsageError("leave one of them out", "--attempt applies to a run's own output, and cannot be used with --node or --address")
	}
	if o.file != "" && o.node == "" {
		return app.UsageError("give --node NODE, too; `rayctl status NAME` lists the nodes, head-0 is the head", "--file is a log of a node, and no node is given")
	}
	if len(args) == 1 && app.IsShared(args[0]) && o.dashboard.Cluster == "" && o.dashboard.Address == "" {
		o.dashboard.Cluster = args[0]
		return nil
	}
	var err error
	o.sole = len(args) == 1 && o.dashboard.Cluster == ""
	o.job, err = clusterAndJob(&o.dashboard, args)
	return err
}

// showLogs shows the available output: of a run from its keeper, of other jobs from the dashboard, of a cluster that has ended from its record.
func showLogs(ctx context.Context, a *app.App, o *logsOptions) error {
	if o.attempt == 0 { // attempts are of a run, which only a cluster of ours has
		a.FromEnvironment(ctx, &o.dashboard)
	}
	if o.dashboard.Address != "" || o.dashboard.Verify != "" {
		c, err := a.Connect(ctx, &o.dashboard)
		if err != nil {
			return err
		}
		defer c.Close()
		return dashboardLogs(ctx, a, o, c)
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.dashboard.Cluster, Config: &o.dashboard.Config, Ended: true, Shared: true})
	if err != nil {
		return err
	}
	s, err := c.Status(ctx)
	o.prepares = s.Job != nil && s.Job.Prepare != nil
	o.ranks = s.Job != nil && o.job == "" && o.node == "" && driverio.HasRanks(s.Job.Entrypoint)
	switch {
	case errors.Is(err, launcher.ErrNotFound) && o.sole:
		return launcher.Fail(runstate.CodeSpec, err, fmt.Sprintf("`rayctl ls` shows yours, and `rayctl logs -c CLUSTER %s` shows the output of a job", c.ID), "no cluster named %q", string(c.ID))
	case err != nil:
		return err
	case o.attempt > s.Attempt:
		return launcher.Fail(runstate.CodeSpec, nil, fmt.Sprintf("give 1 to %d, or leave --attempt out", max(s.Attempt, 1)), "%s has no attempt %d, and its last one is %d", c.ID, o.attempt, s.Attempt)
	case (o.rank != app.AllRanks || o.rankFiles != "") && !o.ranks:
		return launcher.Fail(runstate.CodeSpec, nil, "leave out --rank and --rank-files", "%s has no job of its own that runs on every node, and so no ranks", c.ID)
	case o.rankFiles != "":
		return o.intoFiles(a, func() error { return clusterLogs(ctx, a, o, c, s) })
	}
	err = clusterLogs(ctx, a, o, c, s)
	a.NoteNoRank(o.to(a), o.rank)
	return err
}

// clusterLogs shows the output that a cluster or its record has.
func clusterLogs(ctx context.Context, a *app.App, o *logsOptions, c *app.Cluster, s launcher.Status) error {
	switch {
	case s.Phase.Ended():
		return recordLogs(ctx, a, o, c)
	case c.Shared() != nil && o.node != "":
		return app.UsageError("leave it out", "--node needs the cluster of %s, which only its owner can connect to", c.ID)
	case c.Shared() != nil, o.node == "" && s.Job != nil && (o.job == "" || s.Job.SubmissionID == o.job):
		return runLogs(ctx, a, o, c, s)
	}
	conn, err := a.ConnectCluster(ctx, c)
	if err != nil {
		return err
	}
	defer conn.Close()
	return dashboardLogs(ctx, a, o, conn)
}

// runLogs shows the output of a run that lives: of the cluster's own job, or of one that another user shares.
func runLogs(ctx context.Context, a *app.App, o *logsOptions, c *app.Cluster, s launcher.Status) error {
	earlier := o.attempt != 0 && o.attempt < s.Attempt
	if o.follow && !earlier && s.Job != nil {
		return followRun(ctx, a, o, c)
	}
	if !earlier && s.Job != nil && s.Job.State == runstate.JobWaiting && !s.Job.Preparing() {
		a.UI.Note("the job of %s is not submitted yet: %s", c.ID, app.PhaseLine(s))
		return nil
	}
	err := outputOf(ctx, a, c, func(source launcher.LogSource) error { return presentLog(ctx, a, o, &s, source) })
	switch {
	case errors.Is(err, keeper.ErrNotFound):
		return launcher.Fail(runstate.CodeSpec, launcher.ErrNotEnded, "repeat the command when the run has ended: it then shows what was saved",
			"the output of attempt %d of %s cannot be read yet, because the keeper of that attempt does not run any more", o.attempt, c.ID)
	case err != nil || !o.follow:
		return err
	}
	return attemptCode(&s, o.attempt)
}

// outputOf calls show with what has the output of a run that lives.
func outputOf(ctx context.Context, a *app.App, c *app.Cluster, show func(launcher.LogSource) error) error {
	if shared := c.Shared(); shared != nil {
		return show(shared)
	}
	return a.AskKeeper(ctx, c, func(k *keeper.Client) error { return show(k) })
}

// presentLog shows what there is of an attempt's output.
func presentLog(ctx context.Context, a *app.App, o *logsOptions, s *launcher.Status, source launcher.LogSource) error {
	attempt, size := cmp.Or(o.attempt, s.Attempt), int64(0)
	if o.tail > 0 {
		var err error
		if size, err = source.LogSize(ctx, attempt); err != nil {
			return err
		}
	}
	return tailLog(ctx, o.to(a), s, source.Log, attempt, o.tail, size)
}

// followRun watches the run, through restarts and to its end; or the one attempt that was asked for.
func followRun(ctx context.Context, a *app.App, o *logsOptions, c *app.Cluster) error {
	output, shared := app.NewDriverEnd(o.to(a)), c.Shared() != nil
	ro := launcher.RunOptions{Stdout: output, Tail: o.tail, Attempt: o.attempt, Source: c.Shared(), Logger: a.Logger()}
	if !shared {
		ro.OnStatus = app.NewWatcher(a.UI).See
	}
	outcome, err := launcher.Attach(ctx, c.Launcher, c.ID, ro)
	switch {
	case err != nil && app.Interrupted(ctx) && shared:
		a.UI.Note("stopped watching the shared run %s", c.ID)
		return app.Exit(runstate.CodeInterrupted)
	case err != nil && app.Interrupted(ctx):
		a.UI.Note("stopped watching, run %s keeps running: `rayctl down %s` ends it", c.ID, c.ID)
		return app.Exit(runstate.CodeInterrupted)
	case err != nil:
		return err
	case outcome.Over != nil:
		return attemptCode(outcome.Over, o.attempt)
	}
	exit := outcome.Receipt.Exit
	a.UI.Note("%s", exit.Sentence())
	if !shared && (exit.Cause == runstate.CauseDriverFailed || exit.Cause == runstate.CausePrepareFailed) {
		output.HintMissing(a.UI, app.Place{})
	}
	return app.ExitOrNil(exit.Code)
}

// dashboardLogs shows the output of one job, or a node's log.
func dashboardLogs(ctx context.Context, a *app.App, o *logsOptions, c *app.Connection) error {
	if o.node != "" {
		return nodeLogs(ctx, a, o, c)
	}
	id := o.job
	if id == "" {
		newest, err := newestJob(ctx, c)
		if err != nil {
			return err
		}
		id = newest
		a.UI.Note("job %s (the newest)", id)
	}
	if !o.follow {
		return c.JobLog(ctx, id, o.to(a), dashboardclient.LogOptions{Tail: o.tail, StripHeader: true})
	}
	output := app.NewDriverEnd(o.to(a))
	job, err := followJob(ctx, a, c, id, output, dashboardclient.FollowOptions{Tail: o.tail, StripHeader: true})
	if err != nil {
		return err
	}
	if job.Status == dashboardclient.JobFailed {
		output.HintMissing(a.UI, app.Place{Standing: c.Cluster().Remade(ctx)})
	}
	return app.JobOutcome(a, job.Job, job.notStarted)
}

func newestJob(ctx context.Context, c *app.Connection) (string, error) {
	jobs, err := c.ListJobs(ctx)
	if err != nil {
		return "", err
	}
	for i := range jobs {
		if jobs[i].SubmissionID != "" {
			return jobs[i].SubmissionID, nil
		}
	}
	return "", launcher.Fail(runstate.CodeSpec, nil, "`rayctl submit -- COMMAND` runs one, and `rayctl serve logs` shows the logs of applications", "the cluster had no job yet")
}

// recordLogs shows the saved output of a run that has ended.
func recordLogs(ctx context.Context, a *app.App, o *logsOptions, c *app.Cluster) error {
	r, err := c.Launcher.Result(ctx, c.ID)
	if err != nil {
		return err
	}
	if o.node != "" {
		return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "leave --node out for the driver's output", "cluster %s has ended: its nodes' logs are in its record%s", c.ID, nodeLogPlace(r))
	}
	if r.Job == nil || o.job != "" && o.job != r.Job.SubmissionID {
		return keptLogs(ctx, a, o, c, r)
	}
	attempt := o.attempt
	if attempt == 0 {
		if attempt = lastOutput(ctx, &r.Status, r.OpenLog); attempt != 0 {
			a.UI.Note("attempt %d had no output; the output of attempt %d follows", r.Attempt, attempt)
		}
	}
	if err := tailLog(ctx, o.to(a), &r.Status, r.OpenLog, attempt, o.tail, 0); err != nil {
		return err
	}
	for _, m := range r.Log.Missing {
		a.UI.Warn("%s", launcher.MissingOutput(m))
	}
	if !o.follow {
		return nil
	}
	return attemptCode(&r.Status, o.attempt)
}
