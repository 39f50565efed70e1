package app

import (
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/terminal"
)

// Formats of an answer. The empty one is for people.
const (
	formatText = ""
	FormatWide = "wide"
	FormatName = "name"
	FormatJSON = "json"
	FormatYAML = "yaml"
)

// Output is the flag -o of one command.
type Output struct {
	Format  string
	allowed []string
}

// Add adds the flag to a command that has these formats beside the one for people.
func (o *Output) Add(c *cobra.Command, allowed ...string) {
	o.allowed = allowed
	c.Flags().StringVarP(&o.Format, "output", "o", "", "output `FORMAT`: "+strings.Join(allowed, ", "))
	c.Flags().BoolFunc("json", "the same as -o json", func(string) error { o.Format = FormatJSON; return nil })
	c.Flags().Lookup("json").Hidden = true
	Complete(c, "output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

// Validate refuses a format that the command does not have.
func (o *Output) Validate() error {
	if o.Format == formatText || slices.Contains(o.allowed, o.Format) {
		return nil
	}
	return UsageError("", "there is no output format %q for this command; it has %s", o.Format, strings.Join(o.allowed, ", "))
}

// Driver is where a command writes the driver's output: stdout, or stderr if -o asks for an answer, which stdout then has alone.
func (o *Output) Driver(a *App) io.Writer {
	if o.Format == formatText {
		return a.UI.Output()
	}
	return a.UI.ErrOutput()
}

// Text reports whether the answer is for people.
func (o *Output) Text() bool { return o.Format == formatText }

// Structured writes v if JSON or YAML was requested, and reports whether it did.
func (o *Output) Structured(w io.Writer, v any) (bool, error) {
	switch o.Format {
	case FormatJSON:
		return true, terminal.WriteJSON(w, v)
	case FormatYAML:
		return true, terminal.WriteYAML(w, v)
	default:
		return false, nil
	}
}
