package clusters

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type doctorOptions struct {
	config app.ConfigFlags
	output app.Output
}

// NewDoctor is `rayctl doctor`.
func NewDoctor(a *app.App) *cobra.Command {
	o := &doctorOptions{}
	c := &cobra.Command{
		Use:   "doctor [-f FILE] [flags]",
		Short: "Check the requirements of a launch, and list what is missing",
		Long: "doctor checks what a cluster of the cluster file needs on its launcher: permissions, commands, directories, Python, Ray, ports and networks. It leaves\n" +
			"nothing behind. For each failed check it prints the next step; if a check failed, the exit code is 78.",
		Example: "  rayctl doctor\n  rayctl doctor --launcher slurm",
		Args:    app.NoDash(0, "no arguments"),
		RunE:    a.Action(func(ctx context.Context) error { return runDoctor(ctx, a, o) }),
	}
	o.config.AddSpec(c)
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// runDoctor runs the launcher's checks; a failed one makes exit code 78.
func runDoctor(ctx context.Context, a *app.App, o *doctorOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := a.Load(&o.config, config.Options{})
	if err != nil {
		return err
	}
	if err := c.ReadPackages(false); err != nil {
		return err
	}
	l, err := a.Launcher(c)
	if err != nil {
		return err
	}
	a.UI.Note("Checking what a cluster %s needs (%s)", c.On(), c.Reason)
	a.NoteUnused(c.Spec, l)
	checks := l.Check(ctx, c.Spec)
	failed := 0
	for _, k := range checks {
		if !k.OK {
			failed++
		}
	}
	if done, err := o.output.Structured(a.Out, terminal.NonNil(checks)); err != nil {
		return err
	} else if !done {
		printChecks(a, checks)
	}
	if failed > 0 {
		return launcher.Fail(runstate.CodeConfig, nil, "do what the failed checks say, then repeat `rayctl doctor`", "%d of %d checks failed", failed, len(checks))
	}
	return nil
}

func printChecks(a *app.App, checks []launcher.Check) {
	for _, k := range checks {
		mark := "ok  "
		if !k.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(a.Out, "%s  %s: %s\n", mark, terminal.OneLine(k.Name), terminal.OneLine(k.Detail))
		if !k.OK && k.Hint != "" {
			fmt.Fprintf(a.Out, "      %s\n", terminal.Clean(k.Hint))
		}
	}
}
