package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.StringP("env", "e", "", "")
	fs.BoolP("detach", "d", false, "")
	fs.String("for", "", "")
	fs.Lookup("for").NoOptDefVal = "2m"
	fs.String("each", "", "")
	fs.Lookup("each").NoOptDefVal = "1"
	return fs
}

func TestSplitWords(t *testing.T) {
	for line, want := range map[string]string{
		"a --lr 0.1 --env X b":    "--env X | a --lr 0.1 b",
		"-d -e X -eX --env=X a":   "-d -e X -eX --env=X | a",
		"-de X -dx -5 - -d=false": "-de X -d=false | -dx -5 -",
		"--for 2 --detach":        "--for --detach | 2",
		"--env":                   "--env | ",
	} {
		known, others := splitWords(flags(), strings.Fields(line))
		if got := strings.Join(known, " ") + " | " + strings.Join(others, " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestLast(t *testing.T) {
	for line, want := range map[string]string{
		"run --env X a":                 "X",
		"run --env=X --env Y a":         "Y",
		"run --env=X --detach --env= a": "",
		"run -d a --env":                "",
		"run -d a -- --env X":           "",
		"run --unknown --for=20s":       "",
	} {
		if got := lastValue(flags(), strings.Fields(line), "env"); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}

func TestJoinOptional(t *testing.T) {
	for line, want := range map[string]string{
		"run --for 20s a":       "run --for=20s a",
		"run --each 2 a":        "run --each=2 a",
		"run --each gpu":        "run --each=gpu",
		"run --each 20s --each": "run --each 20s --each",
		"run --each 0":          "run --each 0",
		"run --for 2":           "run --for 2",
		"run --for a 20s":       "run --for a 20s",
		"run --for=1m 20s":      "run --for=1m 20s",
		"run --env 20s":         "run --env 20s",
		"run -- x --for 20s":    "run -- x --for 20s",
		"run --for":             "run --for",
		"run --for 20s -- b 1":  "run --for=20s -- b 1",
	} {
		if got := strings.Join(joinOptional(flags(), strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
