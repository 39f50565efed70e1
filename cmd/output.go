package cmd

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/launcher"
)

// Formats of an answer. The empty one is for people.
const (
	formatText = ""
	formatWide = "wide"
	formatName = "name"
	formatJSON = "json"
	formatYAML = "yaml"
)

// output is the flag -o of one command.
type output struct {
	format  string
	allowed []string
}

func (o *output) add(c *cobra.Command, allowed ...string) {
	o.allowed = allowed
	c.Flags().StringVarP(&o.format, "output", "o", "", "form of the answer: "+strings.Join(allowed, ", "))
	complete(c, "output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
}

func (o *output) validate() error {
	if o.format == formatText || slices.Contains(o.allowed, o.format) {
		return nil
	}
	return usageError("", "there is no output format %q for this command; it has %s", o.format, strings.Join(o.allowed, ", "))
}

// structured writes v if JSON or YAML was requested, and reports whether it did.
func (o *output) structured(w io.Writer, v any) (bool, error) {
	switch o.format {
	case formatJSON:
		return true, writeJSON(w, v)
	case formatYAML:
		return true, writeYAML(w, v)
	default:
		return false, nil
	}
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(cleanJSON(w))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func writeYAML(w io.Writer, v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// table writes rows in columns; the first is the head.
func table(w io.Writer, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	for _, row := range rows {
		for i, cell := range row {
			row[i] = oneLine(cell)
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}

// nonNil makes an empty JSON list of no rows, instead of null.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// ago is the age of a moment: 46 s, 3 min 20 s.
func ago(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return launcher.Human(max(now.Sub(t).Truncate(time.Second).Seconds(), 0))
}

// stamp formats a time as everywhere in rayctl: RFC 3339 in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
