package cmd

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd/app/apptest"
)

// placeholder is the name of a flag's value in the help: NAME, KEY=VALUE, [GROUP=]N, or the type that pflag names.
var placeholder = regexp.MustCompile(`^[A-Z\[][A-Za-z0-9=\[\]:_|,]*$`)

// TestHelpOfFlags: pflag takes what is between the first two backquotes of a flag's text for the name of its value, and prints the default of a list that is
// empty as [].
func TestHelpOfFlags(t *testing.T) {
	a, _, _ := apptest.New()
	var each func(c *cobra.Command)
	each = func(c *cobra.Command) {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name, _ := pflag.UnquoteUsage(f)
			if name != "" && !placeholder.MatchString(name) {
				t.Errorf("%s --%s: the value is called %q", c.CommandPath(), f.Name, name)
			}
		})
		if text := c.LocalFlags().FlagUsages(); strings.Contains(text, "default []") {
			t.Errorf("%s: %s", c.CommandPath(), text)
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(NewRoot(a))
}
