// Package serve is `rayctl serve`: applications of Ray Serve on a cluster.
package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// New is `rayctl serve` and its commands.
func New(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "serve",
		Short: "Apply, show and delete Ray Serve applications",
		Example: "  rayctl init serve     # an application and its serve.yaml to begin with\n" +
			"  rayctl up && rayctl serve apply -f serve.yaml",
		Args: app.UnknownCommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newApply(a), newStatus(a), newLogs(a), newDelete(a))
	for word, hint := range otherVerbs {
		c.AddCommand(app.OtherVerb(word, hint))
	}
	return c
}

// otherVerbs are commands of Ray's `serve` that are none here, and what to type. `serve deploy` and `serve shutdown` are aliases.
var otherVerbs = map[string]string{
	"run":    "`rayctl init serve` writes a serve.yaml in which import_path names the application, `rayctl serve apply -f serve.yaml` deploys it",
	"build":  "`rayctl init serve` writes a serve.yaml in which import_path names the application; what `serve build` of Ray writes, `rayctl serve apply -f` takes",
	"start":  "`rayctl serve apply -f serve.yaml` starts Serve if it does not run",
	"config": "`rayctl serve status -o json` shows what is deployed",
}

type statusOptions struct {
	dashboard app.DashboardFlags
	output    app.Output
}

func newStatus(a *app.App) *cobra.Command {
	o := &statusOptions{}
	c := &cobra.Command{
		Use:               "status [CLUSTER]",
		Aliases:           []string{"list", "ls"},
		Short:             "Show the applications and their deployments",
		Example:           "  rayctl serve status\n  rayctl serve status dev -o json",
		Args:              app.NoDash(1, "one cluster"),
		RunE:              a.OnCluster(&o.dashboard, func(ctx context.Context) error { return runStatus(ctx, a, o) }),
		ValidArgsFunction: a.CompleteClusters,
	}
	o.dashboard.Add(a, c)
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// runStatus shows Serve's applications.
func runStatus(ctx context.Context, a *app.App, o *statusOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := state(ctx, c)
	if err != nil {
		return err
	}
	if err := printStatus(a, &o.output, s); err != nil {
		return err
	}
	tellFailures(a, c, s)
	tellURLs(a, c, s)
	return nil
}

func printStatus(a *app.App, o *app.Output, s *dashboardclient.ServeStatus) error {
	if done, err := o.Structured(a.Out, s); done || err != nil {
		return err
	}
	rows := [][]string{{"APPLICATION", "ROUTE", "STATUS", "DEPLOYMENT", "STATUS", "REPLICAS", "MESSAGE"}}
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		application := s.Applications[name]
		if o.Format == app.FormatName {
			fmt.Fprintln(a.Out, terminal.OneLine(name))
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

// tellFailures prints the whole reason of each application that failed: the table cuts messages, and Serve's begin with a traceback.
func tellFailures(a *app.App, c *app.Connection, s *dashboardclient.ServeStatus) {
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		if application := s.Applications[name]; application.Failed() {
			a.UI.Warn("%s is %s: %s: `rayctl serve logs%s --controller` shows more", terminal.OneLine(name), application.Status,
				terminal.OneLine(application.Cause()), c.Flags())
		}
	}
}

// state asks for the state of Serve. If Ray was installed without Serve, the error names the way to install it.
func state(ctx context.Context, c *app.Connection) (*dashboardclient.ServeStatus, error) {
	s, err := c.GetServe(ctx)
	if err == nil || !strings.Contains(err.Error(), "Serve dependencies are not installed") { // 501 of ray/dashboard/modules/serve/serve_head.py, 2.60
		return s, err
	}
	hint := "the environment or the image of its nodes needs the package ray[serve]"
	if cluster := c.Cluster(); cluster != nil {
		if key := spec.SubstrateOf(cluster.Launcher.Name()).PackagesKey; key != "" {
			hint = fmt.Sprintf("`rayctl up %s --recreate --pip 'ray[serve]'` makes it anew with Serve, in a cluster file %s does", cluster.ID, key)
		}
	}
	return nil, launcher.Fail(runstate.CodeConfig, err, hint, "Ray was installed without Serve on this cluster")
}
