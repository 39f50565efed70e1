package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type waitOptions struct {
	config  app.ConfigFlags
	name    string
	job     string // a job of the cluster, instead of the cluster
	ready   bool
	reports reportFiles
	output  app.Output
}

// NewWait is `rayctl wait`.
func NewWait(a *app.App) *cobra.Command {
	o := &waitOptions{}
	c := &cobra.Command{
		Use:   "wait [NAME] [JOB] [flags]",
		Short: "Wait until a run or a job has ended, and exit with its exit code",
		Long: "wait returns when the run has ended, or at once if it has ended already, with the exit code that `rayctl run` would have. With --ready it returns 0\n" +
			"as soon as every node is there. Ctrl-C stops waiting, not the run. With -o json stdout has the receipt (with --ready the cluster's state).\n" +
			"With JOB, the submission id of a job of cluster NAME, wait returns when that job has ended, with the exit code that `rayctl submit` would have.",
		Example: "  name=$(rayctl run -d -- python train.py); rayctl wait $name --junit report.xml\n  rayctl up -d dev && rayctl wait --ready dev\n" +
			"  job=$(rayctl submit dev -d -- python eval.py); rayctl wait dev $job",
		Args: app.NoDash(2, "one cluster and one job"),
		RunE: func(c *cobra.Command, args []string) error {
			o.arguments(args)
			return a.Action(func(ctx context.Context) error { return runWait(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().BoolVar(&o.ready, "ready", false, "wait until the cluster is ready instead")
	o.reports.Add(c)
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// arguments distinguishes NAME and JOB: a job's id that cannot be a cluster's name, such as those that Ray makes, needs no NAME.
func (o *waitOptions) arguments(args []string) {
	o.name = app.First(args)
	switch {
	case len(args) == 2:
		o.job = args[1]
	case app.IsJobID(o.name):
		o.name, o.job = "", o.name
	}
}

// runWait watches a cluster without its output.
func runWait(ctx context.Context, a *app.App, o *waitOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config, Ended: o.job == ""})
	switch {
	case err != nil:
		return err
	case o.job != "":
		return waitJob(ctx, a, o, c)
	case o.ready:
		return waitReady(ctx, a, o, c)
	}
	watch := app.NewWatcher(a.UI)
	explain := sync.OnceFunc(func() {
		a.UI.Note("waiting for the end of cluster %s, which does not end with its jobs: `rayctl wait %s JOB` waits for one, `rayctl jobs %s` lists them", c.ID, c.ID, c.ID)
	})
	see := func(s launcher.Status) {
		watch.See(s)
		if s.Phase == runstate.Ready && s.Job == nil {
			explain()
		}
	}
	outcome, err := launcher.Attach(ctx, c.Launcher, c.ID, launcher.RunOptions{OnStatus: see, Logger: a.Logger()})
	a.UI.Clear()
	if errors.Is(err, launcher.ErrNotFound) { // ended before, and only its record is there
		var r *launcher.Result
		if r, err = c.Launcher.Result(ctx, c.ID); err == nil {
			outcome = &launcher.Outcome{ID: c.ID, Receipt: launcher.NewReceipt(r), Result: r}
		}
	}
	if launcher.ExitCode(err) == runstate.CodeUnreachable {
		if rc := a.SeenEnd(c.Launcher.Name(), string(c.ID)); rc != nil {
			a.UI.Warn("this is the end that this machine has seen: %s", app.Sentence(err))
			outcome, err = &launcher.Outcome{ID: c.ID, Receipt: rc, Result: launcher.Recordless(rc.Status())}, nil
		}
	}
	if err != nil {
		return err
	}
	a.RememberEnd(outcome.Receipt)
	a.UI.Note("%s %s", c.ID, outcome.Receipt.Exit.Sentence())
	hintMissing(ctx, a, outcome)
	return answer(ctx, a, &o.reports, &o.output, outcome)
}

// lastOutput is how much of the end of the output wait reads for the reason of a failure.
const lastOutput = 64 << 10

// lastLines is the same of a job.
const lastLines = 200

// hintMissing names the flag for a module that a failed driver missed, where its output can be read.
func hintMissing(ctx context.Context, a *app.App, outcome *launcher.Outcome) {
	r, cause := outcome.Result, outcome.Receipt.Exit.Cause
	if r == nil || cause != runstate.CauseDriverFailed && cause != runstate.CausePrepareFailed {
		return
	}
	output := app.NewDriverEnd(io.Discard)
	if app.CopyLog(ctx, output, &r.Status, r.OpenLog, 0, max(0, r.Log.Bytes-lastOutput)) == nil {
		output.HintMissing(a.UI, app.Place{})
	}
}

func (o *waitOptions) validate() error {
	if o.job != "" && o.ready {
		return app.UsageError("leave one of them out", "--ready waits for a cluster, and you name job %s", o.job)
	}
	if flag := o.reports.Given(); flag != "" && o.job != "" {
		return app.UsageError("leave one of them out", "%s reports the end of a run, and you name job %s", flag, o.job)
	}
	if flag := o.reports.Given(); flag != "" && o.ready {
		return app.UsageError("leave one of them out", "%s reports the end of a run, and --ready does not wait for the end", flag)
	}
	if err := o.reports.Validate(); err != nil {
		return err
	}
	return o.output.Validate()
}

// waitJob returns when a job has ended, or its cluster has.
func waitJob(ctx context.Context, a *app.App, o *waitOptions, cluster *app.Cluster) error {
	c, err := a.ConnectCluster(ctx, cluster)
	if errors.Is(err, launcher.ErrEnded) {
		job, err := cluster.KeptJob(ctx, o.job)
		if err != nil {
			return err
		}
		return answerJob(a, o, job)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	a.UI.Live("waiting for the end of "+o.job, a.Now())
	defer a.UI.Clear()
	alive, look, stop := c.AwaitEnd(ctx)
	defer stop()
	look()
	go app.TellUnmet(alive, a.UI, cluster.Launcher, cluster.ID)
	job, err := c.WaitJob(alive, o.job)
	if err != nil && errors.Is(context.Cause(alive), launcher.ErrEnded) {
		return launcher.Fail(runstate.CodeLost, err, fmt.Sprintf("`rayctl status %s` shows why", cluster.ID), "cluster %s has ended, and job %s with it", cluster.ID, o.job)
	}
	if err != nil {
		return err
	}
	a.UI.Clear()
	err = answerJob(a, o, job)
	if output := app.NewDriverEnd(io.Discard); job.Status == dashboardclient.JobFailed && c.JobLog(ctx, o.job, output, dashboardclient.LogOptions{Tail: lastLines}) == nil {
		output.HintMissing(a.UI, app.Place{Standing: cluster.Remade(ctx)})
	}
	return err
}

// answerJob prints a job that has ended, and returns its exit code. One that was lost with its cluster may have no end.
func answerJob(a *app.App, o *waitOptions, job *dashboardclient.Job) error {
	switch done, err := o.output.Structured(a.Out, job); {
	case err != nil:
		return err
	case !done && o.output.Format == app.FormatName:
		fmt.Fprintln(a.Out, terminal.OneLine(app.JobName(job)))
	}
	a.UI.Note("job %s is %s", app.JobName(job), job.Status)
	return app.JobOutcome(a, job, "")
}

// waitReady returns when every node is there. An end before that is an error.
func waitReady(ctx context.Context, a *app.App, o *waitOptions, c *app.Cluster) error {
	statuses, err := c.Launcher.Watch(ctx, c.ID)
	if errors.Is(err, launcher.ErrNotFound) {
		return neverReady(ctx, c.Launcher, c.ID)
	}
	if err != nil {
		return err
	}
	watch := app.NewWatcher(a.UI)
	for s := range statuses {
		watch.See(s)
		if s.Phase == runstate.Ready {
			a.UI.Clear()
			a.UI.Note("cluster %s is ready", c.ID)
			if o.output.Format == app.FormatName {
				fmt.Fprintln(a.Out, terminal.OneLine(s.Name))
			}
			_, err := o.output.Structured(a.Out, s)
			return err
		}
	}
	if app.Interrupted(ctx) {
		return app.Exit(runstate.CodeInterrupted)
	}
	return neverReady(ctx, c.Launcher, c.ID)
}
