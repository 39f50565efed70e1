package words_test

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd/app/words"
)

func flags() *pflag.FlagSet {
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	fs.StringP("env", "e", "", "")
	fs.BoolP("detach", "d", false, "")
	fs.String("for", "", "")
	fs.Lookup("for").NoOptDefVal = "2m"
	return fs
}

func TestSplit(t *testing.T) {
	for line, want := range map[string]string{
		"a --lr 0.1 --env X b":    "--env X | a --lr 0.1 b",
		"-d -e X -eX --env=X a":   "-d -e X -eX --env=X | a",
		"-de X -dx -5 - -d=false": "-de X -d=false | -dx -5 -",
		"--for 2 --detach":        "--for --detach | 2",
		"--env":                   "--env | ",
	} {
		known, others := words.Split(flags(), strings.Fields(line))
		if got := strings.Join(known, " ") + " | " + strings.Join(others, " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}

func TestJoinTimes(t *testing.T) {
	for line, want := range map[string]string{
		"run --for 20s a":      "run --for=20s a",
		"run --for a 20s":      "run --for a 20s",
		"run --for=1m 20s":     "run --for=1m 20s",
		"run --env 20s":        "run --env 20s",
		"run -- x --for 20s":   "run -- x --for 20s",
		"run --for":            "run --for",
		"run --for 20s -- b 1": "run --for=20s -- b 1",
	} {
		if got := strings.Join(words.JoinTimes(flags(), strings.Fields(line)), " "); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
}
