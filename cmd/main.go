// Package cmd is rayctl's command line: the tree of its verbs, and the launchers of this build. The verbs are in packages of their own by what they
// work on. A verb is an options struct, a constructor that only parses, and a run function that only acts; docs/how-a-command-flows.md follows one
// through the code.
package cmd

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
)

// Main runs one command line and returns the exit code of the process.
func Main(args []string) int { return System().Execute(context.Background(), NewRoot, args) }

// System is the App of a real process.
func System() *app.App {
	errorFile := os.Getenv("RAYCTL_ERROR_FILE") // set by our Python package, for this process alone
	_ = os.Unsetenv("RAYCTL_ERROR_FILE")
	return &app.App{
		Streams: terminal.Streams{
			In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
			InTTY: isatty.IsTerminal(os.Stdin.Fd()), OutTTY: isatty.IsTerminal(os.Stdout.Fd()), ErrTTY: isatty.IsTerminal(os.Stderr.Fd()),
			Now: time.Now,
		},
		Getenv: os.Getenv, Notify: signal.Notify, Launchers: launchers(), Source: thisBuild().source(), ErrorFile: errorFile,
	}
}
