package cmd

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app/apptest"
)

// TestSkill: each command of the skill for assistants, in a block or in a sentence, is one of rayctl's, with flags, formats and arguments that it takes.
func TestSkill(t *testing.T) {
	blocks, sentences := commandsOf(t, "../skills/rayctl/SKILL.md")
	for _, line := range slices.Concat(blocks, sentences) {
		parse(t, line)
	}
	if len(blocks) < 20 || len(sentences) < 6 {
		t.Errorf("only %d and %d commands were checked", len(blocks), len(sentences))
	}
}

// TestRLPage: the commands of docs/rl.md are rayctl's, and `init` writes what they ask for.
func TestRLPage(t *testing.T) {
	blocks, sentences := commandsOf(t, "../docs/rl.md")
	written := 0
	for _, line := range slices.Concat(blocks, sentences) {
		words := parse(t, line)
		if len(words) == 0 || words[0] != "init" {
			continue
		}
		t.Chdir(t.TempDir())
		a, _, stderr := apptest.New()
		if code := a.Execute(t.Context(), NewRoot, words); code != 0 {
			t.Errorf("%s: code %d, %s", line, code, stderr)
		}
		written++
	}
	if len(blocks) < 3 || written < 4 {
		t.Errorf("only %d commands were checked, and %d of init were run", len(blocks), written)
	}
}

// inSentence is a command between backquotes.
var inSentence = regexp.MustCompile("`(rayctl [^`]+)`")

// commandsOf are the lines in the blocks of a page that are rayctl's, and the commands between backquotes elsewhere.
func commandsOf(t *testing.T, page string) (blocks, sentences []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	add := func(to []string, line string) []string {
		line, _, _ = strings.Cut(line, " #")
		for command := range strings.SplitSeq(line, " && ") {
			to = append(to, strings.TrimSpace(command))
		}
		return to
	}
	inside := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			inside = !inside
		case inside && !strings.HasPrefix(line, "cd "):
			blocks = add(blocks, line)
		case !inside:
			for _, found := range inSentence.FindAllStringSubmatch(line, -1) {
				sentences = add(sentences, found[1])
			}
		}
	}
	return blocks, sentences
}

// parse reads a command line as rayctl does, without running it; it returns the words behind rayctl.
func parse(t *testing.T, line string) []string {
	t.Helper()
	words := strings.Fields(line)
	if len(words) < 2 || words[0] != "rayctl" {
		t.Errorf("no command of rayctl: %s", line)
		return nil
	}
	words = words[1:]
	a, _, _ := apptest.New()
	c, rest, err := NewRoot(a).Find(words)
	if err != nil || c.Name() != words[0] {
		t.Errorf("%s: %v", line, err)
		return nil
	}
	if err := c.ParseFlags(rest); err != nil {
		t.Errorf("%s: %v", line, err)
		return nil
	}
	if formats := formatsOf(c); len(formats) > 0 {
		if format := c.Flag("output").Value.String(); format != "" && !slices.Contains(formats, format) {
			t.Errorf("%s: -o takes %s", line, strings.Join(formats, ", "))
		}
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil && len(words) > 1 { // a command alone is only named
		t.Errorf("%s: %v", line, err)
	}
	return words
}

// formatsOf are the values of -o, as the shell completes them. The file of debug-dump has none.
func formatsOf(c *cobra.Command) []string {
	complete, is := c.GetFlagCompletionFunc("output")
	if !is {
		return nil
	}
	formats, _ := complete(c, nil, "")
	return formats
}
