package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd"
	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
)

// commands writes the reference of all commands from the commands themselves.
func commands(string) ([]byte, error) {
	a := &app.App{Streams: terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Now: time.Now}, Getenv: func(string) string { return "" }}
	root, shared := cmd.NewRoot(a), sharedFlags(a)
	root.InitDefaultCompletionCmd("completion")
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Commands\n\nMade from code by `make docs`. What they have in common: stdout carries the answer and nothing else, notes and progress go to\n"+
		"stderr; exit codes are in [exit-codes.md](exit-codes.md).\n\n%s\n\n", root.Long)
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "**%s** %s\n\n", group.Title, links(root, group.ID))
	}
	fmt.Fprintf(&b, "## Flags of several commands\n\nEvery command has these, `--help`, and `--help-all`, which also shows the rare flags of a long list:\n\n%s", block(root.PersistentFlags().FlagUsages()))
	for _, s := range shared {
		fmt.Fprintf(&b, "### %s\n\n%s", s.title, block(app.OptionalValues(s.flags.FlagUsages())))
	}
	for _, c := range root.Commands() {
		section(&b, c, shared)
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), nil
}

// sharedSet are flags that many commands have and that stand once in the reference.
type sharedSet struct {
	title string
	flags *pflag.FlagSet
}

// sharedFlags are the sets, each without the flags of those before it.
func sharedFlags(a *app.App) (sets []sharedSet) {
	for _, s := range []struct {
		title string
		add   func(c *cobra.Command)
	}{
		{"Which file and which cluster", func(c *cobra.Command) { config.AddSelection(c.Flags()) }},
		{"Which Ray", func(c *cobra.Command) { new(app.DashboardFlags).Add(a, c) }},
		{"The job", func(c *cobra.Command) { config.AddJob(c.Flags()) }},
		{"The new cluster", func(c *cobra.Command) { addCluster(c.Flags()) }},
		{"The job of a new cluster", func(c *cobra.Command) { config.AddSpec(c.Flags()) }},
	} {
		c := &cobra.Command{}
		s.add(c)
		sets = append(sets, sharedSet{s.title, without(c.Flags(), sets)})
	}
	return sets
}

// addCluster adds what all commands have that make clusters, with or without a job.
func addCluster(to *pflag.FlagSet) {
	up, all := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddUp(up)
	config.AddSpec(all)
	all.VisitAll(func(f *pflag.Flag) {
		if same(up.Lookup(f.Name), f) {
			to.AddFlag(f)
		}
	})
}

// without are the flags of a command that no set has.
func without(fs *pflag.FlagSet, sets []sharedSet) *pflag.FlagSet {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.VisitAll(func(f *pflag.Flag) {
		for _, s := range sets {
			if same(s.flags.Lookup(f.Name), f) {
				return
			}
		}
		own.AddFlag(f)
	})
	return own
}

// same reports whether two flags have one line in the reference.
func same(a, b *pflag.Flag) bool {
	return a != nil && b != nil && a.Shorthand == b.Shorthand && a.Usage == b.Usage
}

// linksOf are the sets of which a command has flags.
func linksOf(c *cobra.Command, sets []sharedSet) string {
	var out []string
	for _, s := range sets {
		has := false
		s.flags.VisitAll(func(f *pflag.Flag) { has = has || same(c.Flags().Lookup(f.Name), f) })
		if has {
			out = append(out, fmt.Sprintf("[%s](#%s)", strings.ToLower(s.title[:1])+s.title[1:], strings.ToLower(strings.ReplaceAll(s.title, " ", "-"))))
		}
	}
	return strings.Join(out, ", ")
}

func links(root *cobra.Command, group string) string {
	var out []string
	for _, c := range root.Commands() {
		if c.GroupID == group && c.IsAvailableCommand() {
			out = append(out, fmt.Sprintf("[%s](#%s)", c.Name(), anchor(c)))
		}
	}
	return strings.Join(out, ", ")
}

func anchor(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

func section(b *bytes.Buffer, c *cobra.Command, shared []sharedSet) {
	if !c.IsAvailableCommand() {
		return
	}
	fmt.Fprintf(b, "## %s\n\n%s.\n\n", c.CommandPath(), c.Short)
	if c.Long != "" {
		fmt.Fprintf(b, "%s\n\n", c.Long)
	}
	if c.Runnable() && c.Use != c.Name() {
		b.WriteString(block(c.UseLine()))
	}
	if c.Example != "" {
		b.WriteString("Examples:\n\n" + block(c.Example))
	}
	if usages := without(c.LocalNonPersistentFlags(), shared).FlagUsages(); usages != "" {
		b.WriteString("Flags:\n\n" + block(usages))
	}
	if also := linksOf(c, shared); also != "" {
		b.WriteString("Flags of several commands: " + also + ".\n\n")
	}
	for _, sub := range c.Commands() {
		section(b, sub, shared)
	}
}

func block(text string) string { return "```text\n" + strings.Trim(text, "\n") + "\n```\n\n" }
