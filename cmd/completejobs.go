package cmd

import "github.com/spf13/cobra"

// completeJobs lists the jobs of the cluster given by --cluster or --address, or of the default one.
func (a *App) completeJobs(c *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return a.jobIDs(c, "")
}

func (a *App) completeClusterThenJob(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return a.completeClusters(c, args, text)
	case 1:
		return a.jobIDs(c, args[0])
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func (a *App) jobIDs(c *cobra.Command, name string) ([]cobra.Completion, cobra.ShellCompDirective) {
	ctx, cancel := a.completing(c)
	defer cancel()
	o := &dashboardOptions{cluster: name, config: configOptions{flags: c.Flags()}}
	if name == "" {
		o.cluster, o.address = flagText(c, "cluster"), flagText(c, "address")
	}
	conn, err := a.connect(ctx, o)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer conn.close()
	jobs, err := conn.ListJobs(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []cobra.Completion
	for i := range jobs {
		out = append(out, cobra.CompletionWithDesc(jobName(&jobs[i]), string(jobs[i].Status)+" "+shorten(jobs[i].Entrypoint, false)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
