package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher"
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
	ls, err := a.SearchedLaunchers(loaded)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ended := c.Name() == "logs" || c.Name() == "status"
	all, err := a.List(ctx, ls, ended)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var out []cobra.Completion
	for _, x := range all {
		out = append(out, cobra.CompletionWithDesc(x.Status.Name, x.Launcher.Name()+", "+endedText(x.Status)))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
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
		return string(s.Phase)
	}
	return fmt.Sprintf("%s (%s)", s.Phase, s.Exit.Cause)
}
