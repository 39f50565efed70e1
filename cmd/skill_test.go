package cmd

import (
	"os"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
)

// TestSkill: each command of the skill for assistants is one of rayctl's, with flags and arguments that it takes.
func TestSkill(t *testing.T) {
	text, err := os.ReadFile("../skills/rayctl/SKILL.md")
	if err != nil {
		t.Fatal(err)
	}
	commands, inside := 0, false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			inside = !inside
			continue
		}
		if !inside {
			continue
		}
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "rayctl" {
			t.Errorf("no command of rayctl: %s", line)
			continue
		}
		a, _, _ := apptest.New()
		c, rest, err := NewRoot(a).Find(words[1:])
		if err != nil || c.Name() != words[1] {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err := c.ParseFlags(rest); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if err := c.ValidateArgs(c.Flags().Args()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		commands++
	}
	if commands < 20 {
		t.Errorf("only %d commands were checked", commands)
	}
}
