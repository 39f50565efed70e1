package files

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
)

// completePlaces completes a side of a copy: a file of this machine, or a cluster, behind which the user types a path.
func completePlaces(a *app.App) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, text string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) > 1 || parsePlace(text).remote:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case len(args) == 1 && parsePlace(args[0]).remote, strings.ContainsRune(text, filepath.Separator):
			return nil, cobra.ShellCompDirectiveDefault // one side is here
		}
		clusters, directive := a.CompleteClusters(c, nil, text)
		if len(clusters) == 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		var out []cobra.Completion
		for _, cluster := range clusters {
			name, description, _ := strings.Cut(cluster, "\t")
			out = append(out, cobra.CompletionWithDesc(name+":", description))
		}
		if len(args) == 0 { // the source may be here: the shell adds its files only if there is nothing else
			out = append(out, filesHere()...)
		}
		return out, directive | cobra.ShellCompDirectiveNoSpace
	}
}

// filesHere are the files of the current directory.
func filesHere() (out []cobra.Completion) {
	entries, err := os.ReadDir(".")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		name := e.Name()
		if e.IsDir() {
			name += string(filepath.Separator)
		}
		if !strings.HasPrefix(name, ".") {
			out = append(out, name)
		}
	}
	return out
}
