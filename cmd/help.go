package cmd

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher/spec"
)

// topics are subjects that people look for in the help and that no command has: the document about each.
var topics = map[string]string{
	"elastic": "elastic.md", "elasticity": "elastic.md", "autoscaling": "elastic.md", "autoscaler": "elastic.md", "scaling": "elastic.md",
	"ci": "ci.md", "sharing": "sharing.md", "sites": "sites.md", "site": "sites.md", "keeper": "keeper.md", "messages": "messages.md",
	"signals": "how-a-command-flows.md", "ctrl-c": "how-a-command-flows.md", "exit-codes": "how-a-command-flows.md", "exitcodes": "how-a-command-flows.md", "exit": "how-a-command-flows.md",
	"warning": "own-trainer.md", "checkpoints": "own-trainer.md", "time-limit": "own-trainer.md", "variables": "cluster-file.md", "environment": "cluster-file.md", "restarts": "cluster-file.md",
	"file": "cluster-file.md", "cluster-file": "cluster-file.md", "yaml": "cluster-file.md", "secrets": "cluster-file.md", "profiles": "cluster-file.md", "gpus": "cluster-file.md",
}

// addHelp makes `rayctl help` refuse what is no command, for which cobra prints the help of the command above. It names the document of the subject,
// what a verb of other tools is here, or the nearest command.
func addHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil {
		panic("help: " + err.Error())
	}
	show := help.Run
	help.Run, help.Example = nil, "  rayctl help run\n  rayctl help elastic"
	help.RunE = func(c *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		switch {
		case err != nil:
			return err
		case found.DisableFlagParsing && found.Hidden && found.RunE != nil:
			return found.RunE(found, nil)
		case len(rest) == 0 || !found.HasSubCommands():
			show(c, args)
			return nil
		}
		if document := topics[strings.ToLower(rest[0])]; document != "" && found == root {
			return app.UsageError("docs/"+document+" in "+app.Repository+" describes it", "there is no command `rayctl %s`", rest[0])
		}
		if key := keyNamed(rest[0]); key != "" && found == root {
			return app.UsageError("it is the key "+key+" of the cluster file: docs/cluster-file.md in "+app.Repository+" describes it, and so does `rayctl schema`", "there is no command `rayctl %s`", rest[0])
		}
		if l := spec.LauncherMeant(rest[0]); l != "" && found == root {
			return app.UsageError("`rayctl doctor --launcher "+l+"` checks what it needs, and docs/cluster-file.md in "+app.Repository+" lists its keys", "there is no command `rayctl %s`", rest[0])
		}
		return app.UnknownCommand(found, rest)
	}
}

// keyNamed is the first key of the cluster file with this path or last name; "" if there is none.
func keyNamed(word string) string {
	for _, k := range spec.Keys() {
		if strings.EqualFold(k.Path, word) || strings.EqualFold(k.Path[strings.LastIndex(k.Path, ".")+1:], word) {
			return k.Path
		}
	}
	return ""
}
