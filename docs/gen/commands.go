package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd"
	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
)

// commands writes the reference of all commands from the commands themselves.
func commands(string) ([]byte, error) {
	root := cmd.NewRoot(&app.App{Streams: terminal.Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard, Now: time.Now}, Getenv: func(string) string { return "" }})
	root.InitDefaultCompletionCmd("completion")
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Commands\n\nMade from code by `make docs`. What they have in common: stdout carries the answer and nothing else, notes and progress go to\n"+
		"stderr; exit codes are in [how-a-command-flows.md](how-a-command-flows.md#exit-codes).\n\n%s\n\n", root.Long)
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "**%s** %s\n\n", group.Title, links(root, group.ID))
	}
	fmt.Fprintf(&b, "Every command has these flags:\n\n%s", block(root.PersistentFlags().FlagUsages()))
	for _, c := range root.Commands() {
		section(&b, c)
	}
	return append(bytes.TrimRight(b.Bytes(), "\n"), '\n'), nil
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

func section(b *bytes.Buffer, c *cobra.Command) {
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
	if usages := c.LocalNonPersistentFlags().FlagUsages(); usages != "" {
		b.WriteString("Flags:\n\n" + block(usages))
	}
	for _, sub := range c.Commands() {
		section(b, sub)
	}
}

func block(text string) string { return "```text\n" + strings.Trim(text, "\n") + "\n```\n\n" }
