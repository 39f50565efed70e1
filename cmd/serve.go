package cmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/dashboardclient"
)

func newServe(a *App) *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Apply, show and delete Ray Serve applications",
		Args:  unknownCommand,
		RunE:  func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newServeApply(a), newServeStatus(a), newServeDelete(a))
	return c
}

type serveStatusOptions struct {
	dashboard dashboardOptions
	output    output
}

func newServeStatus(a *App) *cobra.Command {
	o := &serveStatusOptions{}
	c := &cobra.Command{
		Use:               "status [CLUSTER]",
		Short:             "Show the applications and their deployments",
		Example:           "  rayctl serve status\n  rayctl serve status dev -o json",
		Args:              noDash(1, "one cluster"),
		RunE:              a.onCluster(&o.dashboard, func(ctx context.Context) error { return runServeStatus(ctx, a, o) }),
		ValidArgsFunction: a.completeClusters,
	}
	o.dashboard.add(a, c)
	o.output.add(c, formatJSON, formatYAML, formatName)
	return c
}

// runServeStatus shows Serve's applications.
func runServeStatus(ctx context.Context, a *App, o *serveStatusOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	c, err := a.connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.close()
	s, err := c.GetServe(ctx)
	if err != nil {
		return err
	}
	return a.printServe(&o.output, s)
}

func (a *App) printServe(o *output, s *dashboardclient.ServeStatus) error {
	if done, err := o.structured(a.Out, s); done || err != nil {
		return err
	}
	rows := [][]string{{"APPLICATION", "ROUTE", "STATUS", "DEPLOYMENT", "STATUS", "REPLICAS", "MESSAGE"}}
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		app := s.Applications[name]
		if o.format == formatName {
			fmt.Fprintln(a.Out, clean(name))
			continue
		}
		rows = append(rows, []string{name, orDash(app.RoutePrefix), app.Status, "-", "-", "-", orDash(shorten(app.Message, false))})
		for _, d := range slices.Sorted(maps.Keys(app.Deployments)) {
			dep := app.Deployments[d]
			rows = append(rows, []string{"", "", "", d, dep.Status, strconv.Itoa(len(dep.Replicas)), orDash(shorten(dep.Message, false))})
		}
	}
	switch {
	case o.format == formatName:
		return nil
	case len(s.Applications) == 0:
		a.ui.note("there is no application")
		return nil
	}
	return table(a.Out, rows)
}

type serveDeleteOptions struct {
	dashboard dashboardOptions
	noWait    bool
}

func newServeDelete(a *App) *cobra.Command {
	o := &serveDeleteOptions{}
	c := &cobra.Command{
		Use:               "delete [CLUSTER]",
		Short:             "Delete all applications and wait until they are gone",
		Example:           "  rayctl serve delete",
		Args:              noDash(1, "one cluster"),
		RunE:              a.onCluster(&o.dashboard, func(ctx context.Context) error { return runServeDelete(ctx, a, o) }),
		ValidArgsFunction: a.completeClusters,
	}
	o.dashboard.add(a, c)
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait until they are gone")
	return c
}

// runServeDelete shuts Serve down.
func runServeDelete(ctx context.Context, a *App, o *serveDeleteOptions) error {
	c, err := a.connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.ServeDelete(ctx); err != nil {
		return err
	}
	if !o.noWait {
		a.ui.live("deleting the applications", a.Now())
		if err := c.ServeWaitGone(ctx); err != nil {
			return err
		}
	}
	a.ui.clear()
	a.ui.note("there is no application any more")
	return nil
}
