package cmd

import (
	"cmp"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/docs"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/schema"
)

// topics are subjects that people look for in the help and that no command has: the document about each, or a section of it.
var topics = map[string]string{
	"elastic": "elastic.md", "elasticity": "elastic.md", "autoscaling": "elastic.md", "autoscaler": "elastic.md", "scaling": "elastic.md",
	"ci": "ci.md", "sharing": "sharing.md", "share": "sharing.md", "own-trainer": "own-trainer.md", "early-head": "early-head.md", "commands": "commands.md", "flows": "how-a-command-flows.md", "how-a-command-flows": "how-a-command-flows.md", "sites": "sites.md", "site": "sites.md", "keeper": "keeper.md",
	"signals": ctrlC, "signal": ctrlC, "ctrl-c": ctrlC, "interrupt": ctrlC, "interrupts": ctrlC, "exit-codes": exitCodes, "exitcodes": exitCodes, "exit": exitCodes, "codes": exitCodes, "causes": "exit-codes.md#Causes",
	"warning": "own-trainer.md", "checkpoints": "own-trainer.md", "checkpoint": "own-trainer.md", "resume": "own-trainer.md", "time-limit": "own-trainer.md", "variables": variables, "environment": variables,
	"file": "cluster-file.md", "cluster-file": "cluster-file.md", "yaml": "cluster-file.md", "profiles": "cluster-file.md",
	"first-hour": "first-hour.md", "tutorial": "first-hour.md", "data": "packages.md", "results": "output.md", "receipt": "output.md", "limits": "limits.md", "ends": "limits.md",
	"notebooks": "notebooks.md", "notebook": "notebooks.md", "jupyter": "notebooks.md", "coming-from": "coming-from.md", "sbatch": "coming-from.md", "rayjob": "coming-from.md",
	"troubleshooting": "troubleshooting.md", "errors": "troubleshooting.md", "measured": "measured.md", "templates": "templates.md", "template": "templates.md", "recipes": "recipes.md", "recipe": "recipes.md", "manual": "README.md", "docs": "README.md",
}

// Sections of longer documents.
const (
	variables = "cluster-file.md#Variables"
	ctrlC     = "limits.md#Ctrl-C"
	exitCodes = "exit-codes.md#Exit codes"
)

// keyMeant are what people call keys of the cluster file.
var keyMeant = map[string]string{
	"retry": "job.restarts", "retries": "job.restarts", "restart": "job.restarts", "output": "job.outputDir", "outputs": "job.outputDir", "secret": "secrets",
	"dependencies": "job.pip", "requirements": "job.pip", "timeout": "lifetime.max", "gpu": "gpus", "cpu": "cpus",
}

// subjects are those that the help lists.
const subjects = "elastic, ci, sharing, sites, slurm, kuberay, checkpoints, signals, exit-codes, variables, cluster-file, first-hour, coming-from, notebooks, limits, recipes, templates, troubleshooting"

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
		subjects + " and others. On a terminal a document is laid out for the terminal's width, elsewhere it is Markdown."
	help.Run, help.Example = nil, "  rayctl help run\n  rayctl help job.restarts\n  rayctl help elastic"
	help.RunE = func(c *cobra.Command, args []string) error {
		if c.CalledAs() == "explain" && len(args) == 1 {
			if found, err := showKeys(a, args[0]); found {
				return err
			}
		}
		found, rest, err := root.Find(args)
		word := strings.ToLower(app.First(args))
		switch {
		case err != nil:
			return err
		case len(args) == 1 && found.Hidden && (topics[word] != "" || keyMeant[word] != ""): // share is a verb elsewhere
			return helpSubject(a, root, args)
		case len(args) == 1 && found != root && found.Name() != args[0]: // job is a key, and another name of the command jobs
			if is, err := showKeys(a, word); is {
				a.UI.Note("`rayctl help %s` is about the command %s", found.Name(), found.Name())
				return err
			}
			show(c, args)
			return nil
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
	if l := spec.LauncherMeant(word); document == "" && l != "" && spec.LauncherCalled(word) == l {
		document = l + ".md"
	}
	if document == "" && hasPage(word) {
		document = word + ".md"
	}
	if strings.HasPrefix(word, "rayctl_") {
		document = variables
	}
	if text := docs.Read(document); text != "" {
		return a.Paged(func(w io.Writer) error { return terminal.Markdown(w, text, linked) })
	}
	if found, err := showKeys(a, cmp.Or(keyMeant[word], word)); found {
		return err
	}
	if l := spec.LauncherMeant(word); l != "" {
		return app.UsageError("`rayctl doctor --launcher "+l+"` checks what it needs, and `rayctl help cluster-file` lists its keys", "there is no command `rayctl %s`", words[0])
	}
	if app.NearCommand(root, word) != "" {
		return app.UnknownCommand(root, words)
	}
	if near := nearSubject(word); near != "" {
		return app.UsageError("did you mean `rayctl help "+near+"`?", "there is no command, key or subject %q", words[0])
	}
	return app.UsageError("`rayctl --help` lists the commands, and the subjects are "+subjects, "there is no command, key or subject %q", words[0])
}

// showKeys is helpKeys for a person.
func showKeys(a *app.App, word string) (found bool, err error) {
	err = a.Paged(func(w io.Writer) error {
		found, err = helpKeys(w, word)
		return err
	})
	return found, err
}

// hasPage: most pages are known by their own names; README is an index, jobs a command, and output what people call a key.
func hasPage(name string) bool {
	return name != "README" && name != "jobs" && keyMeant[name] == "" && docs.Read(name+".md") != ""
}

// linked is how to see the target of a link in a document.
func linked(target string) string {
	if strings.Contains(target, "://") {
		return target
	}
	page, _, _ := strings.Cut(target, "#")
	if name, is := strings.CutSuffix(page, ".md"); is && hasPage(name) {
		return "`rayctl help " + name + "`"
	}
	return ""
}

// nearSubject is the subject or key that a mistyped word means; "" if none is near.
func nearSubject(word string) string {
	names := slices.Sorted(maps.Keys(topics))
	for _, section := range schema.Reference() {
		for _, f := range section.Fields {
			names = append(names, plainPath.Replace(f.Path))
		}
	}
	return spec.Nearest(word, names)
}
