package app

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd/terminal"
)

// flagGroup is one group of the flags in a long help text.
type flagGroup struct {
	title string
	// Names of flags: --help shows everyday ones, only --help-all and docs/commands.md show the rare ones. A command need not have all of them.
	everyday, rare []string
}

// flagGroups are the groups of a long list, in the order of the help.
var flagGroups = []flagGroup{
	{"Job", []string{"env", "requirements", "pip", "prepare", "each-node", "rank", "name", "submission-id", "detach", "dry-run"},
		[]string{"env-file", "uv", "runtime-env", "runtime-env-json", "secret", "label", "metadata", "recreate", "no-wait"}},
	{"Files", []string{"file", "profile", "set", "working-dir"}, []string{"excludes", "py-modules"}},
	{"Size", []string{"workers", "cpus-per-worker", "gpus-per-worker", "memory-per-worker", "entrypoint-num-cpus", "entrypoint-num-gpus"},
		[]string{"entrypoint-memory", "entrypoint-resources", "entrypoint-label-selector"}},
	{"Limits", []string{"max", "idle", "queue-timeout", "restarts"}, []string{"grace", "keep", "end-on-disconnect", "on-interrupt"}},
	{"Output", []string{"output", "output-dir", "fetch", "junit"}, []string{"receipt", "share"}},
	{"Site", []string{"cluster", "address", "launcher", "image", "python"}, []string{"ray-version", "context", "namespace", "slurm-host", "slurm-job", "verify"}},
}

// manyFlags: a command with at least so many flags shows them in groups, and leaves out the rare ones.
const manyFlags = 25

const helpAll = "help-all"

// addHelpAll makes every command accept --help-all, which is --help with the rare flags.
func (a *App) addHelpAll(root *cobra.Command) {
	root.PersistentFlags().BoolFunc(helpAll, "help with all flags", func(string) error {
		a.helpAll = true
		return pflag.ErrHelp
	})
	root.PersistentFlags().Lookup(helpAll).Hidden = true
}

// flagHelp is the part of a command's help about its flags.
func (a *App) flagHelp(c *cobra.Command) string {
	width := terminal.HelpWidth(a.Out)
	part := func(title string, fs *pflag.FlagSet) string {
		if !fs.HasAvailableFlags() {
			return ""
		}
		return "\n\n" + title + ":\n" + strings.TrimRight(OptionalValues(fs.FlagUsagesWrapped(width)), "\n ")
	}
	own, all := c.LocalFlags(), c.InheritedFlags()
	if countShown(own) < manyFlags {
		return part("Flags", own) + part("Global Flags", all)
	}
	var b strings.Builder
	grouped, rare := []string{"help"}, []string(nil)
	for _, g := range flagGroups {
		names := g.everyday
		if a.helpAll {
			names = slices.Concat(g.everyday, g.rare)
		}
		b.WriteString(part(g.title, only(own, names)))
		grouped, rare = slices.Concat(grouped, g.everyday, g.rare), append(rare, g.rare...)
	}
	var others []string
	own.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(grouped, f.Name) {
			others = append(others, f.Name)
		}
	})
	b.WriteString(part("Of this command", only(own, others)))
	all.AddFlag(own.Lookup("help"))
	b.WriteString(part("Global Flags", all))
	if !a.helpAll {
		more := fmt.Sprintf("`%s --%s` shows %d more flags, `rayctl help KEY` a key of the cluster file.", c.CommandPath(), helpAll, countShown(only(own, rare)))
		b.WriteString("\n\n" + terminal.Reflow(more, width))
	}
	return b.String()
}

// OptionalValues rewrites a flag with an optional value N as [=N], padded to the same width: cobra shows the value that the flag has without one.
func OptionalValues(usages string) string {
	return strings.ReplaceAll(usages, ` N[="1"]`, "[=N]    ")
}

// only returns the flags of fs with these names, in the order of the names.
func only(fs *pflag.FlagSet, names []string) *pflag.FlagSet {
	out := pflag.NewFlagSet("", pflag.ContinueOnError)
	out.SortFlags = false
	for _, name := range names {
		if f := fs.Lookup(name); f != nil {
			out.AddFlag(f)
		}
	}
	return out
}

func countShown(fs *pflag.FlagSet) (n int) {
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			n++
		}
	})
	return n
}
