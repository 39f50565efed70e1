package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
)

type gcOptions struct {
	config app.ConfigFlags
	dryRun bool
	output app.Output
}

// NewGC is `rayctl gc`.
func NewGC(a *app.App) *cobra.Command {
	o := &gcOptions{}
	c := &cobra.Command{
		Use:     "gc [--dry-run]",
		Short:   "Remove what dead clients and killed keepers left behind, and records that are too old",
		Example: "  rayctl gc --dry-run",
		Args:    app.NoDash(0, "no arguments"),
		RunE:    a.Action(func(ctx context.Context) error { return runGC(ctx, a, o) }),
	}
	o.config.AddSelection(c)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be removed")
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// runGC cleans up for every reachable launcher that can leave something behind.
func runGC(ctx context.Context, a *app.App, o *gcOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := a.Selection(&o.config)
	if err != nil {
		return err
	}
	ls, err := a.SearchedLaunchers(c)
	if err != nil {
		return err
	}
	var all []launcher.Collected
	var failures []error // the failure of one launcher does not stop the others
	for _, l := range ls {
		tokens, err := a.CollectTokens(ctx, l, o.dryRun)
		all, failures = append(all, tokens...), append(failures, err)
		if collector, ok := l.(launcher.Collector); ok {
			found, err := collector.Collect(ctx, o.dryRun)
			all, failures = append(all, found...), append(failures, err)
		}
	}
	failed := errors.Join(failures...)
	if done, err := o.output.Structured(a.Out, terminal.NonNil(all)); done || err != nil {
		return cmp.Or(err, failed)
	}
	verb := "removed"
	if o.dryRun {
		verb = "would remove"
	}
	for _, x := range all {
		fmt.Fprintf(a.Out, "%s %s %s: %s\n", verb, terminal.Clean(x.What), terminal.Clean(x.Name), terminal.Clean(x.Why))
	}
	if len(all) == 0 && failed == nil {
		a.UI.Note("there is nothing to remove")
	}
	return failed
}
