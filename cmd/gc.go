package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher"
)

type gcOptions struct {
	config configOptions
	dryRun bool
	output output
}

func newGC(a *App) *cobra.Command {
	o := &gcOptions{}
	c := &cobra.Command{
		Use:     "gc [--dry-run]",
		Short:   "Remove what dead clients and killed keepers left behind, and records that are too old",
		Example: "  rayctl gc --dry-run",
		Args:    noDash(0, "no arguments"),
		RunE:    a.action(func(ctx context.Context) error { return runGC(ctx, a, o) }),
	}
	o.config.addSelection(c)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only say what would be removed")
	o.output.add(c, formatJSON, formatYAML)
	return c
}

// runGC cleans up for every reachable launcher that can leave something behind.
func runGC(ctx context.Context, a *App, o *gcOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	c, err := a.selection(&o.config)
	if err != nil {
		return err
	}
	ls, err := a.searched(c)
	if err != nil {
		return err
	}
	var all []launcher.Collected
	var failures []error // the failure of one launcher does not stop the others
	for _, l := range ls {
		tokens, err := a.collectTokens(ctx, l, o.dryRun)
		all, failures = append(all, tokens...), append(failures, err)
		if collector, ok := l.(launcher.Collector); ok {
			found, err := collector.Collect(ctx, o.dryRun)
			all, failures = append(all, found...), append(failures, err)
		}
	}
	failed := errors.Join(failures...)
	if done, err := o.output.structured(a.Out, nonNil(all)); done || err != nil {
		return cmp.Or(err, failed)
	}
	verb := "removed"
	if o.dryRun {
		verb = "would remove"
	}
	for _, x := range all {
		fmt.Fprintf(a.Out, "%s %s %s: %s\n", verb, clean(x.What), clean(x.Name), clean(x.Why))
	}
	if len(all) == 0 && failed == nil {
		a.ui.note("there is nothing to remove")
	}
	return failed
}
