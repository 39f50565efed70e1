// Package app holds the code that rayctl's verbs share: the App with the process's streams and the function that opens a launcher, the loaded
// configuration, the cluster of a command and the connection to its dashboard (with the variables of `ray job`, rayclient.go), the phases of a cluster that they
// show (watcher.go), the flag -o, errors, exit codes and the end of a driver or job (driverend.go, jobend.go). It imports no launcher:
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
	// Source is what this program was built from: the tag of a release, such as v0.1.0, or a whole commit; "": not known.
	Source string

	// ErrorFile is the path to which the command writes its error as JSON, for a program that calls rayctl; "": it writes none.
	ErrorFile string

	Verbose    bool
	UI         *terminal.UI
	args       []string       // the command line
	filesNamed bool           // the names of the configuration files that apply were printed
	helpAll    bool           // the help shows rare flags, too
	sent       *Sent          // by this command, for its job
	parsed     bool           // the command line was valid: errors from here on are not usage errors
	handedOn   atomic.Bool    // a command that rayctl started has the terminal: Ctrl-C is for that command, not for rayctl
	telling    sync.WaitGroup // a warning that stdout failed is being printed
}

// Logger is the log of -v, which prints every step on stderr. Without -v it discards everything.
func (a *App) Logger() *slog.Logger {
	if !a.Verbose {
		return slog.New(slog.DiscardHandler)
	}
	bare := func(groups []string, attr slog.Attr) slog.Attr { // people read the lines, so time and level are left out
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
		if err != nil && Interrupted(ctx) && (!errors.As(err, &told) || told.Code != runstate.CodeInterrupted) { // whoever interrupted the command needs no message
			return Exit(runstate.CodeInterrupted)
		}
		return err
	}
}

// HandOn leaves Ctrl-C and Ctrl-\ to a command that rayctl runs on this terminal: the terminal sends both signals to that command and to rayctl, which from now on
// ignores them.
func (a *App) HandOn() {
	a.handedOn.Store(true)
	a.Notify(make(chan os.Signal, 1), syscall.SIGQUIT) // otherwise SIGQUIT would end rayctl with a stack trace
}

// Interrupted reports whether ctx was ended by a signal.
func Interrupted(ctx context.Context) bool {
	return errors.As(context.Cause(ctx), &launcher.Interruption{})
}

// Next prints the useful next commands.
func (a *App) Next(commands ...string) {
	a.UI.Note("next: %s", strings.Join(commands, "; "))
}
