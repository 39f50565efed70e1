package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type downOptions struct {
	config configOptions
	names  []string
	labels []string
	all    bool
	now    bool
}

func newDown(a *App) *cobra.Command {
	o := &downOptions{}
	c := &cobra.Command{
		Use:   "down [NAME...] [-l KEY=VALUE] [--all] [--now]",
		Short: "End clusters and wait until nothing is allocated",
		Long:  "down ends clusters, whoever launched them from wherever, and returns once nothing of them is allocated. A running driver gets its grace\n(job.grace) unless --now. A cluster that is gone already is not an error.",
		Example: "  rayctl down\n  rayctl down dev grpo-x1f3a\n" +
			"  rayctl down -l team=rl --now",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.names = args
			return a.action(func(ctx context.Context) error { return runDown(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.completeClusters,
	}
	o.config.addSelection(c)
	f := c.Flags()
	f.StringArrayVarP(&o.labels, "selector", "l", nil, "end those with this label: `KEY=VALUE`")
	f.BoolVar(&o.all, "all", false, "end all of yours")
	f.BoolVar(&o.now, "now", false, "give the drivers no grace")
	return c
}

// runDown ends all chosen clusters in parallel.
func runDown(ctx context.Context, a *App, o *downOptions) error {
	clusters, err := a.chosen(ctx, o)
	if err != nil {
		return err
	}
	var g errgroup.Group
	for _, c := range clusters {
		g.Go(func() error {
			var missing error // only for the message: a partly created cluster is ended as well
			if len(o.names) > 0 {
				_, missing = c.status(ctx)
			}
			err := c.l.Terminate(ctx, c.id, launcher.End{Cause: "down", Message: "ended by rayctl down", Now: o.now})
			if err != nil && interrupted(ctx) {
				a.ui.note("cluster %s goes on ending", c.id)
				return exitCode(runstate.CodeInterrupted)
			}
			if err != nil {
				return err
			}
			if errors.Is(missing, launcher.ErrNotFound) {
				a.ui.note("there is no cluster %s", c.id)
			} else {
				a.ui.note("cluster %s is gone", c.id)
			}
			return a.forgetToken(c)
		})
	}
	if len(clusters) > 0 {
		a.ui.live(fmt.Sprintf("ending %d cluster(s)", len(clusters)), time.Now())
	}
	return g.Wait()
}

// chosen lists the clusters to end.
func (a *App) chosen(ctx context.Context, o *downOptions) ([]*cluster, error) {
	if len(o.names) > 0 && (o.all || len(o.labels) > 0) {
		return nil, usageError("", "give names, or --all, or -l, not several of them")
	}
	if len(o.names) == 0 && !o.all && len(o.labels) == 0 {
		c, err := a.find(ctx, findOptions{config: &o.config})
		if errors.Is(err, launcher.ErrNotFound) {
			a.ui.note("there is no cluster")
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []*cluster{c}, nil
	}
	var out []*cluster
	for _, name := range o.names {
		c, err := a.find(ctx, findOptions{name: name, config: &o.config})
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) > 0 {
		return out, nil
	}
	return a.selected(ctx, o)
}

// selected lists clusters by label, or all.
func (a *App) selected(ctx context.Context, o *downOptions) ([]*cluster, error) {
	labels, err := pairs("-l", o.labels)
	if err != nil {
		return nil, err
	}
	c, err := a.selection(&o.config)
	if err != nil {
		return nil, err
	}
	ls, err := a.searched(c)
	if err != nil {
		return nil, err
	}
	var out []*cluster
	for _, l := range ls {
		found, err := l.List(ctx, launcher.Selector{Labels: labels})
		if err != nil {
			return nil, err
		}
		for _, s := range found {
			if s.Ours && !s.Phase.Ended() {
				out = append(out, &cluster{l: l, id: launcher.ID(s.Name), spec: c.Spec})
			}
		}
	}
	if len(out) == 0 {
		a.ui.note("there is no such cluster")
	}
	return out, nil
}
