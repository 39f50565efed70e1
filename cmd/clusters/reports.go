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
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// reportFiles are the files that run and wait write about how a run ended.
type reportFiles struct{ receipt, junit string }

func (o *reportFiles) add(c *cobra.Command) {
	c.Flags().StringVar(&o.receipt, "receipt", "", "write the receipt as JSON to this `FILE`")
	c.Flags().StringVar(&o.junit, "junit", "", "write a report for CI to this `FILE`: JUnit XML, one test case for each attempt")
}

// given is the first flag that names a file, or "".
func (o *reportFiles) given() string {
	switch {
	case o.receipt != "":
		return "--receipt"
	case o.junit != "":
		return "--junit"
	}
	return ""
}

func (o *reportFiles) validate() error {
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

// write writes what was asked for. r is the run's saved result; nil: the launch failed.
func (o *reportFiles) write(ctx context.Context, rc *launcher.Receipt, r *launcher.Result) error {
	if o.receipt != "" {
		if err := writeReceipt(o.receipt, rc); err != nil {
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

// answerEnd writes what was asked for about a run's end, and returns the run's exit code.
func answerEnd(ctx context.Context, a *app.App, files *reportFiles, output *app.Output, outcome *launcher.Outcome) error {
	rc := outcome.Receipt
	if err := files.write(ctx, rc, outcome.Result); err != nil {
		return launcher.Fail(cmp.Or(rc.Exit.Code, runstate.CodeConfig), err, "the run itself ended with exit code "+strconv.Itoa(rc.Exit.Code), "%v", err)
	}
	if output.Format == app.FormatName {
		fmt.Fprintln(a.Out, rc.Name)
	}
	if _, err := output.Structured(a.Out, rc); err != nil {
		return err
	}
	return app.ExitOrNil(rc.Exit.Code)
}
