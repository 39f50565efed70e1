package clusters

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/history"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// reportFiles are the files that run and wait write about how a run ended.
type reportFiles struct{ receipt, junit string }

// Add declares the flags.
func (o *reportFiles) Add(c *cobra.Command) {
	c.Flags().StringVar(&o.receipt, "receipt", "", "write the receipt as JSON to this `FILE`")
	c.Flags().StringVar(&o.junit, "junit", "", "write a report for CI to this `FILE`: JUnit XML, one test case for each attempt")
}

// Given is the first flag that names a file, or "".
func (o *reportFiles) Given() string {
	switch {
	case o.receipt != "":
		return "--receipt"
	case o.junit != "":
		return "--junit"
	}
	return ""
}

// Validate refuses files whose directory is not there, before a run begins.
func (o *reportFiles) Validate() error {
	for _, f := range [][2]string{{"--receipt", o.receipt}, {"--junit", o.junit}} {
		if f[1] == "" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(f[1])); err != nil {
			return launcher.Fail(runstate.CodeConfig, err, "make its directory first", "%s: %v", f[0], err)
		}
	}
	return nil
}

// Write writes what was asked for. r is the run's saved result; nil: the launch failed.
func (o *reportFiles) Write(ctx context.Context, rc *launcher.Receipt, r *launcher.Result) error {
	if o.receipt != "" {
		if err := history.WriteReceipt(o.receipt, rc); err != nil {
			return fmt.Errorf("the receipt cannot be written: %w", err)
		}
	}
	if o.junit != "" {
		if err := writeJUnit(ctx, o.junit, rc, r); err != nil {
			return fmt.Errorf("the report cannot be written: %w", err)
		}
	}
	return nil
}

// answer writes what was asked for about a run's end, and returns the run's exit code.
func answer(ctx context.Context, a *app.App, files *reportFiles, output *app.Output, outcome *launcher.Outcome) error {
	rc := outcome.Receipt
	if err := files.Write(ctx, rc, outcome.Result); err != nil {
		return launcher.Fail(cmp.Or(rc.Exit.Code, runstate.CodeConfig), err, "the run itself ended with exit code "+strconv.Itoa(rc.Exit.Code), "%v", err)
	}
	if output.Format == app.FormatName {
		fmt.Fprintln(a.Out, terminal.OneLine(rc.Name))
	}
	if _, err := output.Structured(a.Out, rc); err != nil {
		return err
	}
	return app.ExitOrNil(rc.Exit.Code)
}
