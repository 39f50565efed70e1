package clusters

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/watcher"
	"github.com/rayctl/rayctl/cmd/clusters/report"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type waitOptions struct {
	config  app.ConfigFlags
	name    string
	ready   bool
	reports report.Files
	output  app.Output
}

// NewWait is `rayctl wait`.
func NewWait(a *app.App) *cobra.Command {
	o := &waitOptions{}
	c := &cobra.Command{
		Use:   "wait [NAME] [flags]",
		Short: "Wait until a run has ended, and exit with its exit code",
		Long: "wait returns when the run has ended, or at once if it has ended already, with the exit code that `rayctl run` would have. With --ready it returns 0\n" +
			"as soon as every node is there. Ctrl-C stops waiting, not the run. With -o json stdout has the receipt (with --ready the cluster's state).",
		Example: "  name=$(rayctl run -d -- python train.py); rayctl wait $name --junit report.xml\n  rayctl up -d dev && rayctl wait --ready dev",
		Args:    app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = app.First(args)
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

// runWait watches a cluster without its output.
func runWait(ctx context.Context, a *app.App, o *waitOptions) error {
	if err := o.validate(); err != nil {
		return err
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config, Ended: true})
	if err != nil {
		return err
	}
	if o.ready {
		return waitReady(ctx, a, o, c)
	}
	watch := watcher.New(a.UI)
	outcome, err := launcher.Attach(ctx, c.Launcher, c.ID, launcher.RunOptions{OnStatus: watch.See, Logger: a.Logger()})
	a.UI.Clear()
	if errors.Is(err, launcher.ErrNotFound) { // ended before, and only its record is there
		var r *launcher.Result
		if r, err = c.Launcher.Result(ctx, c.ID); err == nil {
			outcome = &launcher.Outcome{ID: c.ID, Receipt: launcher.NewReceipt(r), Result: r}
		}
	}
	if err != nil {
		return err
	}
	a.UI.Note("%s %s", c.ID, outcome.Receipt.Exit.Sentence())
	return report.Answer(ctx, a, &o.reports, &o.output, outcome)
}

func (o *waitOptions) validate() error {
	if flag := o.reports.Given(); flag != "" && o.ready {
		return app.UsageError("leave one of them out", "%s reports the end of a run, and --ready does not wait for the end", flag)
	}
	if err := o.reports.Validate(); err != nil {
		return err
	}
	return o.output.Validate()
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
	watch := watcher.New(a.UI)
	for s := range statuses {
		watch.See(s)
		if s.Phase == runstate.Ready {
			a.UI.Clear()
			a.UI.Note("cluster %s is ready", c.ID)
			if o.output.Format == app.FormatName {
				fmt.Fprintln(a.Out, s.Name)
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
