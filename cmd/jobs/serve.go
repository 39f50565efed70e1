package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
)

// NewServe is `rayctl serve` and its three commands.
func NewServe(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Apply, show and delete Ray Serve applications",
		Args:  app.UnknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newServeApply(a), newServeStatus(a), newServeDelete(a))
	return c
}

type serveStatusOptions struct {
	dashboard app.DashboardFlags
	output    app.Output
}

func newServeStatus(a *app.App) *cobra.Command {
	o := &serveStatusOptions{}
	c := &cobra.Command{
		Use:               "status [CLUSTER]",
		Short:             "Show the applications and their deployments",
		Example:           "  rayctl serve status\n  rayctl serve status dev -o json",
		Args:              app.NoDash(1, "one cluster"),
		RunE:              a.OnCluster(&o.dashboard, func(ctx context.Context) error { return runServeStatus(ctx, a, o) }),
		ValidArgsFunction: a.CompleteClusters,
	}
	o.dashboard.Add(a, c)
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// runServeStatus shows Serve's applications.
func runServeStatus(ctx context.Context, a *app.App, o *serveStatusOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.GetServe(ctx)
	if err != nil {
		return err
	}
	return printServe(a, &o.output, s)
}

func printServe(a *app.App, o *app.Output, s *dashboardclient.ServeStatus) error {
	if done, err := o.Structured(a.Out, s); done || err != nil {
		return err
	}
	rows := [][]string{{"APPLICATION", "ROUTE", "STATUS", "DEPLOYMENT", "STATUS", "REPLICAS", "MESSAGE"}}
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		application := s.Applications[name]
		if o.Format == app.FormatName {
			fmt.Fprintln(a.Out, terminal.Clean(name))
			continue
		}
		rows = append(rows, []string{name, terminal.OrDash(application.RoutePrefix), application.Status, "-", "-", "-", terminal.OrDash(terminal.Shorten(application.Message, false))})
		for _, d := range slices.Sorted(maps.Keys(application.Deployments)) {
			dep := application.Deployments[d]
			rows = append(rows, []string{"", "", "", d, dep.Status, strconv.Itoa(len(dep.Replicas)), terminal.OrDash(terminal.Shorten(dep.Message, false))})
		}
	}
	switch {
	case o.Format == app.FormatName:
		return nil
	case len(s.Applications) == 0:
		a.UI.Note("there is no application")
		return nil
	}
	return terminal.Table(a.Out, rows)
}

type serveDeleteOptions struct {
	dashboard app.DashboardFlags
	noWait    bool
}

func newServeDelete(a *app.App) *cobra.Command {
	o := &serveDeleteOptions{}
	c := &cobra.Command{
		Use:               "delete [CLUSTER]",
		Short:             "Delete all applications and wait until they are gone",
		Example:           "  rayctl serve delete",
		Args:              app.NoDash(1, "one cluster"),
		RunE:              a.OnCluster(&o.dashboard, func(ctx context.Context) error { return runServeDelete(ctx, a, o) }),
		ValidArgsFunction: a.CompleteClusters,
	}
	o.dashboard.Add(a, c)
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait until they are gone")
	return c
}

// runServeDelete shuts Serve down.
func runServeDelete(ctx context.Context, a *app.App, o *serveDeleteOptions) error {
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.ServeDelete(ctx); err != nil {
		return err
	}
	if !o.noWait {
		a.UI.Live("deleting the applications", a.Now())
		if err := c.ServeWaitGone(ctx); err != nil {
			return err
		}
	}
	a.UI.Clear()
	a.UI.Note("there is no application any more")
	return nil
}
