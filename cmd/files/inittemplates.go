package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/templates/workloads"
)

// titles are the headings of the list of templates.
var titles = map[string]string{"start": "Start here", "rl": "Reinforcement learning", "ray": "Ray's own libraries", "ci": "CI", "": "Templates"}

// defaultTemplate is the one that is written if none is named.
const defaultTemplate = "basic"

// found are the templates among which one is chosen.
type found struct {
	all   []*workloads.Template
	one   *workloads.Template // the chosen one, nil if none was
	dir   string              // the directory of a team's templates, "" for rayctl's own
	close func()
}

// find is the template that was named, or all that may be meant.
func (o *initOptions) find() (*found, error) {
	if isPath(o.template) {
		all, closed, err := workloads.Open(o.template)
		if err != nil {
			return nil, refused(err)
		}
		f := &found{all: all, dir: o.template, close: closed}
		if len(all) == 1 {
			f.one = all[0]
		}
		return f, nil
	}
	all, err := workloads.Builtin()
	if err != nil {
		return nil, err
	}
	f := &found{all: all, close: func() {}}
	if o.template == "" {
		return f, nil
	}
	name, err := app.CITemplate(o.template)
	if err != nil {
		return nil, err
	}
	if f.one = workloads.Named(all, name); f.one == nil {
		f.one = workloads.Named(all, o.template)
	}
	if f.one == nil {
		return nil, o.unknown(all)
	}
	return f, nil
}

// unknown is the error for a name that no template has.
func (o *initOptions) unknown(all []*workloads.Template) error {
	hint := "there are " + strings.Join(names(all), ", ")
	if near := spec.Nearest(o.template, names(all)); near != "" {
		hint = "did you mean " + near + "? `rayctl init --list` lists the templates"
	}
	if _, err := os.Stat(filepath.Join(o.template, workloads.ManifestName)); err == nil {
		hint = "did you mean `rayctl init " + shellescape.Quote("./"+o.template) + "`?"
	}
	return app.UsageError(hint, "there is no template %q", o.template)
}

// only is the template that was named, or the default.
func (f *found) only() (*workloads.Template, error) {
	switch {
	case f.one != nil:
		return f.one, nil
	case f.dir == "":
		return workloads.Named(f.all, defaultTemplate), nil
	}
	var commands []string
	for _, name := range names(f.all) {
		commands = append(commands, "`rayctl init "+shellescape.Quote(strings.TrimSuffix(f.dir, "/")+"/"+name)+"`")
	}
	return nil, app.UsageError("give "+strings.Join(commands, " or "), "%s has several templates", f.dir)
}

func names(all []*workloads.Template) (out []string) {
	for _, t := range all {
		out = append(out, t.Name)
	}
	return out
}

// nameWidth is that of the longest name.
func nameWidth(all []*workloads.Template) (width int) {
	for _, t := range all {
		width = max(width, len(t.Name))
	}
	return width
}

// templateHelp is the list for the command's help.
func templateHelp() string {
	all, err := workloads.Builtin()
	if err != nil {
		return "" // the command itself says it
	}
	var b strings.Builder
	width := nameWidth(all)
	group := "-"
	for _, t := range all {
		if t.Group != group {
			group = t.Group
			fmt.Fprintf(&b, "%s:\n", titles[group])
		}
		fmt.Fprintf(&b, "  %-*s  %s\n", width, t.Name, t.Title)
	}
	return b.String()
}

// printList is --list.
func (o *initOptions) printList(a *app.App, all []*workloads.Template) error {
	if o.output.Format == app.FormatName {
		return terminal.WriteLine(a.Out, strings.Join(names(all), "\n"))
	}
	var manifests []workloads.Manifest
	rows := [][]string{{"TEMPLATE", "FRAMEWORK", "LAUNCHERS", "TITLE"}}
	for _, t := range all {
		manifests = append(manifests, t.Manifest)
		launchers := strings.Join(t.Launchers, ", ")
		if len(t.Launchers) == 0 {
			launchers = "-"
		}
		rows = append(rows, []string{t.Name, strings.TrimSpace(t.Framework.Name + " " + t.Framework.Version), launchers, t.Title})
	}
	if done, err := o.output.Structured(a.Out, manifests); done {
		return err
	}
	return terminal.Table(a.Out, rows)
}

// printParameters is --params.
func (o *initOptions) printParameters(a *app.App, t *workloads.Template) error {
	parameters := t.All("the directory's")
	if o.output.Format == app.FormatName {
		var out []string
		for _, p := range parameters {
			out = append(out, p.Name)
		}
		return terminal.WriteLine(a.Out, strings.Join(out, "\n"))
	}
	if done, err := o.output.Structured(a.Out, t.Manifest); done {
		return err
	}
	rows := [][]string{{"PARAMETER", "DEFAULT", "TAKES", "MEANING"}}
	for _, p := range parameters {
		rows = append(rows, []string{p.Name, fmt.Sprint(p.Default), p.Takes(), p.Help})
	}
	return terminal.Table(a.Out, rows)
}

// completeTemplates completes a template, or a directory.
func completeTemplates(_ *cobra.Command, args []string, word string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
	switch {
	case len(args) > 0:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case isPath(word):
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	all, err := workloads.Builtin()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	for _, t := range all {
		out = append(out, cobra.CompletionWithDesc(t.Name, t.Title))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// completing is the template of a command line that is not complete; nil if there is none.
func completing(args []string) (t *workloads.Template, closed func()) {
	o := &initOptions{template: defaultTemplate}
	if len(args) > 0 {
		o.template = args[0]
	}
	f, err := o.find()
	if err != nil {
		return nil, nil
	}
	return f.one, f.close
}

// completeSet completes the parameters of a template, and the values of a choice.
func completeSet(_ *cobra.Command, args []string, word string) (out []cobra.Completion, _ cobra.ShellCompDirective) {
	t, closed := completing(args)
	if t == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer closed()
	key, _, hasValue := strings.Cut(word, "=")
	for _, p := range t.All("") {
		switch {
		case !hasValue:
			out = append(out, cobra.CompletionWithDesc(p.Name+"=", p.Help))
		case p.Name == key && p.Type == "bool":
			out = append(out, key+"=true", key+"=false")
		case p.Name == key:
			for _, choice := range p.Choices {
				out = append(out, key+"="+choice)
			}
		}
	}
	directive := cobra.ShellCompDirectiveNoFileComp
	if !hasValue {
		directive |= cobra.ShellCompDirectiveNoSpace
	}
	return out, directive
}

func completeLauncher(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	t, closed := completing(args)
	if t == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer closed()
	return t.Launchers, cobra.ShellCompDirectiveNoFileComp
}
