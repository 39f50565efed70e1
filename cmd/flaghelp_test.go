package cmd

import (
	"regexp"
	"slices"
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
		if text := c.LocalFlags().FlagUsages(); strings.Contains(text, "default []") || strings.Contains(text, "(default )") {
			t.Errorf("%s: %s", c.CommandPath(), text)
		}
		for _, sub := range c.Commands() {
			each(sub)
		}
	}
	each(NewRoot(a))
}

// TestHelpInGroups: --help of a command with many flags shows the everyday ones in groups, and --help-all all, each once.
func TestHelpInGroups(t *testing.T) {
	listed := regexp.MustCompile(`(?m)^ {2,6}(?:-[a-zA-Z], )?--([a-z-]+)`)
	flags := func(args ...string) (names []string, text string) {
		a, out, stderr := apptest.New()
		if code := a.Execute(t.Context(), NewRoot, args); code != 0 {
			t.Fatal(args, code, stderr)
		}
		for _, found := range listed.FindAllStringSubmatch(out.String(), -1) {
			names = append(names, found[1])
		}
		return names, out.String()
	}
	a, _, _ := apptest.New()
	for _, verb := range []string{"run", "up", "submit", "render", "validate", "doctor"} {
		everyday, help := flags(verb, "--help")
		all, _ := flags(verb, "--help-all")
		for _, group := range []string{"Job:", "Files:", "Site:"} {
			if !strings.Contains(help, "\n\n"+group+"\n") {
				t.Errorf("%s --help has no group %s", verb, group)
			}
		}
		if len(everyday) > 33 || slices.Contains(everyday, "runtime-env-json") || slices.Contains(everyday, "working-dir") == (verb == "up") || !strings.Contains(help, "`rayctl "+verb+" --help-all`") {
			t.Errorf("%s --help: %q\n%s", verb, everyday, help)
		}
		c, _, err := NewRoot(a).Find([]string{verb})
		if err != nil {
			t.Fatal(err)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if n := count(all, f.Name); !f.Hidden && n != 1 {
				t.Errorf("%s --help-all lists --%s %d times", verb, f.Name, n)
			}
		})
	}
	if plain, help := flags("cp", "--help-all"); !slices.Contains(plain, "node") || !strings.Contains(help, "\nFlags:\n") || strings.Contains(help, "--help-all") {
		t.Errorf("cp --help-all: %s", help)
	}
}

func count(words []string, word string) (n int) {
	for _, w := range words {
		if w == word {
			n++
		}
	}
	return n
}
