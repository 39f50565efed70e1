package cmd

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type doctorOptions struct {
	config configOptions
	output output
}

func newDoctor(a *App) *cobra.Command {
	o := &doctorOptions{}
	c := &cobra.Command{
		Use:     "doctor [-f FILE] [flags]",
		Short:   "Check what a launch needs, and say what to do about what is missing",
		Example: "  rayctl doctor\n  rayctl doctor --launcher slurm",
		Args:    noDash(0, "no arguments"),
		RunE:    a.action(func(ctx context.Context) error { return runDoctor(ctx, a, o) }),
	}
	o.config.addSpec(c)
	o.output.add(c, formatJSON, formatYAML)
	return c
}

// runDoctor runs the launcher's checks; a failed one makes exit code 78.
func runDoctor(ctx context.Context, a *App, o *doctorOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	c, err := a.load(&o.config, config.Options{})
	if err != nil {
		return err
	}
	l, err := a.launcher(c)
	if err != nil {
		return err
	}
	a.ui.note("%s", c.Reason)
	a.notePackages(c.Spec)
	checker, err := ability[launcher.Checker](l, "doctor")
	if err != nil {
		return err
	}
	checks := checker.Check(ctx, c.Spec)
	failed := 0
	for _, k := range checks {
		if !k.OK {
			failed++
		}
	}
	if done, err := o.output.structured(a.Out, nonNil(checks)); err != nil {
		return err
	} else if !done {
		a.printChecks(checks)
	}
	if failed > 0 {
		return launcher.Fail(runstate.CodeConfig, nil, "", "%d of %d checks failed", failed, len(checks))
	}
	return nil
}

func (a *App) printChecks(checks []launcher.Check) {
	for _, k := range checks {
		mark := "ok  "
		if !k.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(a.Out, "%s  %s: %s\n", mark, k.Name, oneLine(k.Detail))
		if !k.OK && k.Hint != "" {
			fmt.Fprintf(a.Out, "      %s\n", clean(k.Hint))
		}
	}
}
