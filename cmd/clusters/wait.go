package clusters

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type waitOptions struct {
	config app.ConfigFlags
	name   string
	ready  bool
}

// NewWait is `rayctl wait`.
func NewWait(a *app.App) *cobra.Command {
	o := &waitOptions{}
	c := &cobra.Command{
		Use:   "wait [NAME] [--ready]",
		Short: "Wait until a run has ended, and exit with its exit code",
		Long: "wait returns when the run has ended, with the exit code that `rayctl run` would have had, also when it ended before. With --ready it returns 0 as\n" +
			"soon as every node is there. Ctrl-C stops waiting, not the run.",
		Example: "  name=$(rayctl run -d -- python train.py); rayctl wait $name\n  rayctl up -d dev && rayctl wait --ready dev",
		Args:    app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = app.First(args)
			return a.Action(func(ctx context.Context) error { return runWait(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().BoolVar(&o.ready, "ready", false, "wait until the cluster is ready instead")
	return c
}

// runWait watches a cluster without its output.
func runWait(ctx context.Context, a *app.App, o *waitOptions) error {
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config, Ended: true})
	if err != nil {
		return err
	}
	if o.ready {
		return waitReady(ctx, a, c)
	}
	watch := a.NewWatcher()
	outcome, err := launcher.Attach(ctx, c.Launcher, c.ID, launcher.RunOptions{OnStatus: watch.See, Logger: a.Logger()})
	a.UI.Clear()
	var exit runstate.Exit
	switch {
	case errors.Is(err, launcher.ErrNotFound): // ended before, and only its record is there
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		exit = *s.Exit
	case err != nil:
		return err
	default:
		exit = outcome.Receipt.Exit
	}
	a.UI.Note("%s %s", c.ID, exit.Sentence())
	return app.ExitOrNil(exit.Code)
}

// waitReady returns when every node is there. An end before that is an error.
func waitReady(ctx context.Context, a *app.App, c *app.Cluster) error {
	statuses, err := c.Launcher.Watch(ctx, c.ID)
	if errors.Is(err, launcher.ErrNotFound) {
		return neverReady(ctx, c.Launcher, c.ID)
	}
	if err != nil {
		return err
	}
	watch := a.NewWatcher()
	for s := range statuses {
		watch.See(s)
		if s.Phase == runstate.Ready {
			a.UI.Clear()
			a.UI.Note("cluster %s is ready", c.ID)
			return nil
		}
	}
	if app.Interrupted(ctx) {
		return app.Exit(runstate.CodeInterrupted)
	}
	return neverReady(ctx, c.Launcher, c.ID)
}
