package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// completionTime limits how long pressing the Tab key may take.
const completionTime = 2 * time.Second

// Complete registers the completion of a flag's value; a missing flag is a mistake in this package.
func Complete(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(fmt.Sprintf("completing --%s of %s: %v", flag, c.Name(), err))
	}
}

// CompleteClusters lists the reachable clusters.
func (a *App) CompleteClusters(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 && c.Name() != "down" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := a.Completing(c)
	defer cancel()
	loaded, err := a.Selection(&ConfigFlags{Flags: c.Flags()})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ls, err := a.SearchedLaunchers(loaded, "")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ended := slices.Contains([]string{"logs", "status", "debug-dump"}, c.Name())
	all, err := a.List(ctx, ls, ended)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []cobra.Completion
	for _, x := range all {
		out = append(out, cobra.CompletionWithDesc(terminal.OneLine(x.Status.Name), x.Launcher.Name()+", "+terminal.OneLine(endedText(x.Status))))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// CompleteNodes completes --node with the names of the cluster's nodes: of the one that an argument names, as NAME or as NAME:PATH, else of the
// cluster that is meant without a name.
func (a *App) CompleteNodes(c *cobra.Command) {
	Complete(c, "node", func(c *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := a.Completing(c)
		defer cancel()
		cluster, err := a.Find(ctx, FindOptions{Name: clusterIn(c, args), Config: &ConfigFlags{Flags: c.Flags()}})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		s, err := cluster.Status(ctx)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var out []cobra.Completion
		for _, n := range s.Nodes {
			out = append(out, cobra.CompletionWithDesc(terminal.OneLine(n.Name), terminal.OneLine(n.Host)))
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
}

// clusterIn is the cluster that a command line names; "" if none.
func clusterIn(c *cobra.Command, args []string) string {
	if name := FlagText(c, "cluster"); name != "" {
		return name
	}
	for _, arg := range args {
		name, _, place := strings.Cut(arg, ":")
		if (place || c.Name() != "cp") && spec.CheckName(name) == nil {
			return name
		}
	}
	return ""
}

// Completing makes the command silent and quick for the shell's completion.
func (a *App) Completing(c *cobra.Command) (context.Context, context.CancelFunc) {
	a.Quiet = true
	ctx := c.Context()
	if ctx == nil {
		ctx = context.Background()
	}
	return context.WithTimeout(ctx, completionTime)
}

// FlagText is the value of a flag, or "" if the command has no such flag.
func FlagText(c *cobra.Command, name string) string {
	if f := c.Flags().Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}

func endedText(s launcher.Status) string {
	if s.Exit == nil {
		return s.Phase.Word()
	}
	return fmt.Sprintf("%s (%s)", s.Phase.Word(), s.Exit.Cause)
}
