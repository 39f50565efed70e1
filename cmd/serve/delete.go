package serve

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type deleteOptions struct {
	dashboard app.DashboardFlags
	apps      []string
	all       bool
	shutdown  bool // the verb of `serve`, which means all
	noWait    bool
}

func newDelete(a *app.App) *cobra.Command {
	o := &deleteOptions{}
	c := &cobra.Command{
		Use:     "delete [CLUSTER] [APPLICATION...]",
		Aliases: []string{"shutdown"},
		Short:   "Delete applications, and wait until they have ended",
		Long: "delete deletes the named applications and keeps the others. Without a name it deletes the only application; if there are several, --all deletes\n" +
			"them. When no application is left, Serve ends. Called as `rayctl serve shutdown`, it deletes all, as `serve shutdown` does.",
		Example: "  rayctl serve delete dev chat\n  rayctl serve delete -c dev chat\n  rayctl serve delete dev --all",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.apps = args
			o.shutdown = c.CalledAs() == "shutdown"
			return a.Action(func(ctx context.Context) error { return runDelete(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.dashboard.Add(a, c)
	app.Accept(c.Flags(), "yes", "y", "delete never asks")
	c.Flags().BoolVar(&o.all, "all", false, "delete all applications")
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait until they have ended")
	return c
}

// runDelete deletes applications, or shuts Serve down.
func runDelete(ctx context.Context, a *app.App, o *deleteOptions) error {
	var err error
	if o.apps, err = a.ClusterFirst(ctx, &o.dashboard, o.apps); err != nil {
		return err
	}
	if o.all && len(o.apps) > 0 {
		return app.UsageError("leave one of them out", "--all deletes all applications, and you name %s", strings.Join(o.apps, ", "))
	}
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	if len(o.apps) == 0 && !o.all && !o.shutdown {
		if err := noneChosen(ctx, c); err != nil {
			return err
		}
	}
	if err := deleteApplications(ctx, a, c, o.apps); err != nil {
		return err
	}
	if !o.noWait {
		a.UI.Live("deleting the applications", a.Now())
		if err := c.ServeWaitGone(ctx, o.apps...); err != nil {
			return err
		}
	}
	a.UI.Clear()
	if len(o.apps) > 0 {
		a.UI.Note("deleted %s", strings.Join(o.apps, ", "))
		return nil
	}
	a.UI.Note("there are no applications any more")
	return nil
}

// noneChosen refuses to delete several applications of which the user named none.
func noneChosen(ctx context.Context, c *app.Connection) error {
	status, err := c.GetServe(ctx)
	if err != nil {
		return err
	}
	maps.DeleteFunc(status.Applications, func(_ string, application dashboardclient.ServeApplication) bool {
		return application.Status == "DELETING"
	})
	if len(status.Applications) < 2 {
		return nil
	}
	return app.UsageError("name the ones to delete, or give --all", "Serve has the applications %s", strings.Join(slices.Sorted(maps.Keys(status.Applications)), ", "))
}

// deleteApplications applies the configuration of the others: Ray's REST API deletes all, or what a configuration does not name.
func deleteApplications(ctx context.Context, a *app.App, c *app.Connection, names []string) error {
	if len(names) == 0 {
		return c.ServeDelete(ctx)
	}
	configs, err := c.ServeConfigs(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		config, exists := configs[name]
		if !exists {
			return noApplication(c, name)
		}
		if config == nil {
			return launcher.Fail(runstate.CodeSpec, nil, "end that driver, or delete it with serve.delete there",
				"application %s was deployed by a driver (serve.run), not by a config file", name)
		}
		delete(configs, name)
	}
	if len(configs) == 0 {
		return c.ServeDelete(ctx)
	}
	others := []any{}
	for _, config := range configs {
		if config != nil {
			others = append(others, config)
		}
	}
	config := map[string]any{"applications": others}
	if err := place(ctx, a, c, "Serve", config); err != nil {
		return err
	}
	return c.ServeApply(ctx, config)
}

// noApplication is the error for a name that Serve does not have.
func noApplication(c *app.Connection, name string) error {
	return launcher.Fail(runstate.CodeSpec, nil, "`rayctl serve status"+c.Flags()+"` lists them", "Serve has no application %q", name)
}
