package serve

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type logsOptions struct {
	dashboard  app.DashboardFlags
	apps       []string
	controller bool
	follow     bool
	tail       int
}

func newLogs(a *app.App) *cobra.Command {
	o := &logsOptions{}
	c := &cobra.Command{
		Use:   "logs [CLUSTER] [APPLICATION...] [-f]",
		Short: "Show the logs and the output of the applications' replicas",
		Long: "logs shows for each replica of the applications (default: all) first its log and then its output. If there are several replicas, each line begins with\n" +
			"the replica's name.\n" +
			"With --controller it shows the log of Serve itself, which gives the reasons of failed deployments.",
		Example: "  rayctl serve logs\n  rayctl serve logs dev chat -f\n  rayctl serve logs --controller --tail 50",
		Args:    cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			o.apps = args
			return a.Action(func(ctx context.Context) error { return runLogs(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "keep showing what the current replicas log, until Ctrl-C or the end of the cluster")
	c.Flags().IntVarP(&o.tail, "tail", "n", 0, "only the last `N` lines of each")
	c.Flags().BoolVar(&o.controller, "controller", false, "the log of Serve's controller instead")
	o.dashboard.Add(a, c)
	return c
}

// processLog is the log of one process of Serve.
type processLog struct {
	name    string
	replica string // its id; "" for the controller
	dashboardclient.ServeActor
}

// runLogs shows or follows logs of Serve.
func runLogs(ctx context.Context, a *app.App, o *logsOptions) error {
	if o.tail < 0 {
		return app.UsageError("give a number from 1, or leave the flag out", "--tail cannot be negative")
	}
	var err error
	if o.apps, err = a.ClusterFirst(ctx, &o.dashboard, o.apps); err != nil {
		return err
	}
	c, err := a.Connect(ctx, &o.dashboard)
	if err != nil {
		return err
	}
	defer c.Close()
	status, err := state(ctx, c)
	if err != nil {
		return err
	}
	logs, err := o.logs(c, status)
	if err != nil {
		return err
	}
	several := len(logs) > 1
	if logs, err = withPrints(ctx, c, logs); err != nil {
		return err
	}
	if o.follow {
		return o.followAll(ctx, a, c, logs, several)
	}
	return a.Paged(func(out io.Writer) error {
		for _, l := range logs {
			w := l.lines(out, several)
			if err := c.NodeLog(ctx, l.NodeID, l.LogFile, w, dashboardclient.LogOptions{Tail: o.tail}); err != nil {
				return err
			}
			if err := w.flush(); err != nil {
				return err
			}
		}
		return nil
	})
}

// noReplica is why there is no log, as far as Serve says it.
func noReplica(s *dashboardclient.ServeStatus, apps []string) string {
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		if app := s.Applications[name]; len(apps) == 0 || slices.Contains(apps, name) {
			return terminal.OneLine(fmt.Sprintf("no replica of %s has begun, so that there is no log: the application is %s", name, terminal.OrDash(app.Status)))
		}
	}
	return "Serve has no application, so that there is no log"
}

// logs are those that were asked for.
func (o *logsOptions) logs(c *app.Connection, s *dashboardclient.ServeStatus) (logs []processLog, err error) {
	add := func(name, replica string, actor dashboardclient.ServeActor) {
		actor.LogFile = strings.TrimPrefix(actor.LogFile, "/")
		if actor.LogFile != "" && actor.NodeID != "" { // a replica that has not begun has none
			logs = append(logs, processLog{name, replica, actor})
		}
	}
	if o.controller {
		add("controller", "", s.Controller)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Applications)) {
		if o.controller || len(o.apps) > 0 && !slices.Contains(o.apps, name) {
			continue
		}
		deployments := s.Applications[name].Deployments
		for _, d := range slices.Sorted(maps.Keys(deployments)) {
			for _, r := range deployments[d].Replicas {
				add(terminal.OneLine(name+"/"+d+"/"+r.ID), r.ID, r.ServeActor)
			}
		}
	}
	for _, name := range o.apps {
		if _, exists := s.Applications[name]; !exists {
			return nil, noApplication(c, name)
		}
	}
	if len(logs) == 0 {
		return nil, launcher.Fail(runstate.CodeSpec, nil, "`rayctl serve logs"+c.Flags()+" --controller` shows why, where an application failed", "%s", noReplica(s, o.apps))
	}
	return logs, nil
}

// followAll shows the logs as they grow, until Ctrl-C or the cluster's end.
func (o *logsOptions) followAll(ctx context.Context, a *app.App, c *app.Connection, logs []processLog, several bool) error {
	out := &oneWriter{w: a.UI.Output()}
	return a.FollowLogs(ctx, c, dashboardclient.LogOptions{Tail: o.tail}, func(ctx context.Context, opts dashboardclient.LogOptions) error {
		group, inner := errgroup.WithContext(ctx)
		for _, l := range logs {
			group.Go(func() error { return c.FollowNodeLog(inner, l.NodeID, l.LogFile, l.lines(out, several), opts) })
		}
		return group.Wait()
	})
}
