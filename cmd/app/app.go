// Package app holds the code that rayctl's verbs share: the App with the process's streams and the function that opens a launcher, the loaded
// configuration, the cluster of a command and the connection to its dashboard, the flag -o, errors and exit codes. It imports no launcher:
// App.Launchers opens them, and tests replace that function.
package app

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// NewLauncher makes the launcher of one substrate for a cluster file, whose sections configure how the substrate is reached.
type NewLauncher func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error)

// App holds the commands' dependencies on their environment. Tests make their own.
type App struct {
	terminal.Streams
	Getenv func(string) string
	// Notify is signal.Notify.
	Notify    func(chan<- os.Signal, ...os.Signal)
	Launchers map[string]NewLauncher
	// Release is the tag of this build's release, such as v0.1.0; "": it is of none.
	Release string

	// ErrorFile takes the error of the command as JSON, for a program that calls rayctl; "": none does.
	ErrorFile string

	Verbose    bool
	UI         *terminal.UI
	args       []string       // the command line
	filesNamed bool           // the files in force were printed
	helpAll    bool           // the help is to show rare flags
	parsed     bool           // the command line was valid: errors from here on are not usage errors
	handedOn   atomic.Bool    // Ctrl-C is for a command that runs on this terminal
	telling    sync.WaitGroup // pending warning about a failed stdout
}

// Logger is the log of -v: every step on stderr.
func (a *App) Logger() *slog.Logger {
	if !a.Verbose {
		return slog.New(slog.DiscardHandler)
	}
	bare := func(groups []string, attr slog.Attr) slog.Attr { // the lines are for people: without time and level
		if len(groups) == 0 && (attr.Key == slog.TimeKey || attr.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return attr
	}
	return slog.New(slog.NewTextHandler(a.UI.LogWriter(), &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: bare}))
}

// Action is a cobra RunE whose context ends with SIGINT, SIGTERM or SIGHUP. This suffices for commands that only watch or query.
func (a *App) Action(run func(ctx context.Context) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		ctx, cancel := context.WithCancelCause(c.Context())
		defer cancel(nil)
		signals := make(chan os.Signal, 2)
		a.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		go func() {
			for ctx.Err() == nil {
				select {
				case s := <-signals:
					if s != syscall.SIGINT || !a.handedOn.Load() {
						cancel(launcher.Interruption{Signal: s})
					}
				case <-ctx.Done():
				}
			}
		}()
		err := run(ctx)
		var told *launcher.ExitError
		if err != nil && Interrupted(ctx) && (!errors.As(err, &told) || told.Code != runstate.CodeInterrupted) { // the interrupt needs no message
			return Exit(runstate.CodeInterrupted)
		}
		return err
	}
}

// HandOn leaves this terminal's keys to a command that runs on it: Ctrl-C and Ctrl-\ also signal that command.
func (a *App) HandOn() {
	a.handedOn.Store(true)
	a.Notify(make(chan os.Signal, 1), syscall.SIGQUIT) // by default Go crashes on it
}

// Interrupted reports whether ctx was ended by a signal.
func Interrupted(ctx context.Context) bool {
	return errors.As(context.Cause(ctx), &launcher.Interruption{})
}

// Next prints the useful next commands.
func (a *App) Next(commands ...string) {
	a.UI.Note("next: %s", strings.Join(commands, "; "))
}
