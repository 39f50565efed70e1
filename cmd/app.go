// Package cmd is rayctl's command line, one file for each verb. A command is an options struct, a constructor that only parses, and
// a run function that only acts; docs/how-a-command-flows.md follows one through the code.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Version of this build, set by the linker.
var Version = "dev"

// NewLauncher makes the launcher of one substrate for a cluster file, whose sections configure how the substrate is reached.
type NewLauncher func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error)

// App holds the commands' dependencies on their environment. Tests make their own.
type App struct {
	In       io.Reader
	Out, Err io.Writer
	// InTTY, OutTTY and ErrTTY are true if the stream is a terminal.
	InTTY, OutTTY, ErrTTY bool
	Getenv                func(string) string
	Now                   func() time.Time
	// Notify is signal.Notify.
	Notify    func(chan<- os.Signal, ...os.Signal)
	Launchers map[string]NewLauncher

	quiet, verbose bool
	ui             *ui
	filesNamed     bool           // the files in force were printed
	parsed         bool           // the command line was valid: errors from here on are not usage errors
	handedOn       atomic.Bool    // Ctrl-C is for a command that runs on this terminal
	telling        sync.WaitGroup // pending warning about a failed stdout
}

// System is the App of a real process.
func System() *App {
	return &App{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		InTTY: isatty.IsTerminal(os.Stdin.Fd()), OutTTY: isatty.IsTerminal(os.Stdout.Fd()), ErrTTY: isatty.IsTerminal(os.Stderr.Fd()),
		Getenv: os.Getenv, Now: time.Now, Notify: signal.Notify,
		Launchers: launchers(),
	}
}

// Main runs one command line and returns the exit code of the process.
func Main(args []string) int { return System().Main(context.Background(), args) }

// Main runs one command line and returns its exit code.
func (a *App) Main(ctx context.Context, args []string) (code int) {
	a.ui = newUI(a)
	defer a.ui.close()
	a.Out = launcher.NewStdout(a.Out, a.outputLost)
	defer func() {
		if p := recover(); p != nil {
			code = a.report(fail(runstate.CodeInternal, errPanic, "please report it with the command at https://github.com/rayctl/rayctl/issues, and `-v` shows where",
				"rayctl has a bug: %v", p))
			if a.verbose {
				fmt.Fprintf(a.Err, "%s", debug.Stack())
			}
		}
	}()
	root := NewRoot(a) //nolint:contextcheck // cobra hands the context to each command itself
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.parsed {
		err = usage(root, err)
	}
	return a.outputCode(a.report(err))
}

// outputLost warns that stdout accepts nothing more. The command goes on, because its work matters more than its output. A closed pipe gets no
// warning: its reader closed it. The warning is asynchronous because the ui may be the writer.
func (a *App) outputLost(err error) {
	if errors.Is(err, syscall.EPIPE) {
		return
	}
	a.telling.Go(func() {
		a.ui.warn("%s the output cannot be written, the rest of it is not shown: %v", a.ui.paint(red, "rayctl:"), err)
	})
}

// outputCode turns exit code 0 into CodeOutputLost if output was lost.
func (a *App) outputCode(code int) int {
	a.telling.Wait()
	if out, ok := a.Out.(*launcher.Stdout); ok && out.Err() != nil && code == 0 {
		return runstate.CodeOutputLost
	}
	return code
}

var errPanic = errors.New("panic")

// logger is the log of -v: every step on stderr.
func (a *App) logger() *slog.Logger {
	if !a.verbose {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(a.ui.logWriter(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// action is a cobra RunE whose context ends with SIGINT, SIGTERM or SIGHUP. This suffices for commands that only watch or query.
func (a *App) action(run func(ctx context.Context) error) func(*cobra.Command, []string) error {
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
		if err != nil && interrupted(ctx) && (!errors.As(err, &told) || told.Code != runstate.CodeInterrupted) { // the interrupt needs no message
			return exitCode(runstate.CodeInterrupted)
		}
		return err
	}
}

// handOn leaves this terminal's keys to a command that runs on it: Ctrl-C and Ctrl-\ also signal that command.
func (a *App) handOn() {
	a.handedOn.Store(true)
	a.Notify(make(chan os.Signal, 1), syscall.SIGQUIT) // by default Go crashes on it
}

// interrupted reports whether ctx was ended by a signal.
func interrupted(ctx context.Context) bool {
	return errors.As(context.Cause(ctx), &launcher.Interruption{})
}
