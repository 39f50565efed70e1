package cmd

import (
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/docs"
	"github.com/rayctl/rayctl/launcher/spec"
)

// topics are subjects that people look for in the help and that no command has: the document about each.
var topics = map[string]string{
	"elastic": "elastic.md", "elasticity": "elastic.md", "autoscaling": "elastic.md", "autoscaler": "elastic.md", "scaling": "elastic.md",
	"ci": "ci.md", "sharing": "sharing.md", "share": "sharing.md", "own-trainer": "own-trainer.md", "early-head": "early-head.md", "commands": "commands.md", "flows": "how-a-command-flows.md", "how-a-command-flows": "how-a-command-flows.md", "sites": "sites.md", "site": "sites.md", "keeper": "keeper.md",
	"signals": "how-a-command-flows.md", "ctrl-c": "how-a-command-flows.md", "exit-codes": "how-a-command-flows.md", "exitcodes": "how-a-command-flows.md", "exit": "how-a-command-flows.md",
	"warning": "own-trainer.md", "checkpoints": "own-trainer.md", "time-limit": "own-trainer.md", "variables": "cluster-file.md", "environment": "cluster-file.md",
	"file": "cluster-file.md", "cluster-file": "cluster-file.md", "yaml": "cluster-file.md", "profiles": "cluster-file.md",
}

// addHelp makes `rayctl help` refuse what is no command, for which cobra prints the help of the command above. It shows the document of a subject and the
// reference of a key of the cluster file, and names what a verb of other tools is here, or the nearest command. `rayctl explain` is for keys first.
func addHelp(a *app.App, root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic("help: " + err.Error())
	}
	show := help.Run
	help.Use, help.Aliases, help.Short = "help [COMMAND | KEY | SUBJECT]", []string{"explain"}, "Help about a command, a key of the cluster file, or a subject"
	help.Long = "help shows the help of a command, what a key of the cluster file means (a whole path or its last name), or the document about a subject: " +
		"elastic, ci, sharing, sites, slurm, kuberay, checkpoints, signals, exit-codes, variables, cluster-file and others."
	help.Run, help.Example = nil, "  rayctl help run\n  rayctl help job.restarts\n  rayctl help elastic | less"
	help.RunE = func(c *cobra.Command, args []string) error {
		if c.CalledAs() == "explain" && len(args) == 1 {
			if found, err := helpKeys(a.Out, args[0]); found {
				return err
			}
		}
		found, rest, err := root.Find(args)
		switch {
		case err != nil:
			return err
		case found.DisableFlagParsing && found.Hidden && found.RunE != nil:
			return found.RunE(found, nil)
		case len(rest) == 0 || !found.HasSubCommands():
			show(c, args)
			return nil
		case found != root:
			return app.UnknownCommand(found, rest)
		}
		return helpSubject(a, root, rest)
	}
}

// helpSubject shows what the first word is about.
func helpSubject(a *app.App, root *cobra.Command, words []string) error {
	word := strings.ToLower(words[0])
	document := topics[word]
	if l := spec.LauncherMeant(word); document == "" && l != "" {
		document = l + ".md"
	}
	if text := docs.Read(document); text != "" {
		_, err := io.WriteString(a.Out, text)
		return err
	}
	if found, err := helpKeys(a.Out, word); found {
		return err
	}
	if l := spec.LauncherMeant(word); l != "" {
		return app.UsageError("`rayctl doctor --launcher "+l+"` checks what it needs, and `rayctl help cluster-file` lists its keys", "there is no command `rayctl %s`", words[0])
	}
	return app.UnknownCommand(root, words)
}
