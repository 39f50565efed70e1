package jobs

import (
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/driverio"
)

// completeClusterThenJob lists the clusters, and behind a cluster, or if a flag gives one, its jobs.
func completeClusterThenJob(a *app.App) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case app.FlagText(c, "cluster") != "" || app.FlagText(c, "address") != "":
			return jobIDs(a, c, "")
		case len(args) == 0:
			return a.CompleteClusters(c, args, text)
		case len(args) == 1:
			return jobIDs(a, c, args[0])
		default:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}

// jobIDs lists the jobs of a cluster.
func jobIDs(a *app.App, c *cobra.Command, name string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := a.Completing(c)
	defer cancel()
	o := &app.DashboardFlags{Cluster: name, Config: app.ConfigFlags{Flags: c.Flags()}}
	if name == "" {
		o.Cluster, o.Address = app.FlagText(c, "cluster"), app.FlagText(c, "address")
	}
	conn, err := a.Connect(ctx, o)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer conn.Close()
	jobs, err := conn.ListJobs(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []cobra.Completion
	for i := range jobs {
		out = append(out, cobra.CompletionWithDesc(terminal.OneLine(app.JobName(&jobs[i])), terminal.OneLine(string(jobs[i].Status))+" "+terminal.Shorten(driverio.UserCommand(jobs[i].Entrypoint), false)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
