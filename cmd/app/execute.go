package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Execute runs one command line on the commands that tree makes, and returns its exit code.
func (a *App) Execute(ctx context.Context, tree func(*App) *cobra.Command, args []string) (code int) {
	a.UI, a.args = terminal.NewUI(&a.Streams, a.Getenv), args
	defer a.UI.Close()
	a.Out = driverio.NewStdout(a.Out, a.outputLost)
	defer func() {
		if p := recover(); p != nil {
			code = a.report(launcher.Fail(runstate.CodeInternal, errPanic, "please report it with the command at https://github.com/rayctl/rayctl/issues, and `-v` shows where",
				"rayctl has a bug: %v", p))
			if a.Verbose {
				fmt.Fprintf(a.Err, "%s", debug.Stack())
			}
		}
	}()
	root := tree(a)
	placed, err := a.place(root, args)
	if err != nil {
		return a.report(err)
	}
	a.args = placed
	root.SetArgs(placed)
	err = root.ExecuteContext(ctx)
	if err != nil && !a.parsed {
		err = usage(root, err)
	}
	return a.outputCode(a.report(err))
}

// Prepare gives a tree of commands the streams, the checks and the flags that all commands have.
func (a *App) Prepare(root *cobra.Command) {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if err := noEmptyNames(c, args); err != nil {
			return err
		}
		if err := c.ValidateFlagGroups(); err != nil { // cobra checks them after this, when errors no longer count as usage errors
			return exclusive(err)
		}
		a.parsed = true
		return nil
	}
	root.SetFlagErrorFunc(a.flagError)
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	root.PersistentFlags().BoolVarP(&a.Quiet, "quiet", "q", false, "no notes and no progress on stderr; run and up still print the name of what they start")
	root.PersistentFlags().BoolVarP(&a.Verbose, "verbose", "v", false, "show every step on stderr")
	a.prepareHelp(root)
}

var errPanic = errors.New("panic")

// outputLost warns that stdout accepts nothing more. The command goes on, because its work matters more than its output. A closed pipe gets no
// warning: its reader closed it. The warning is asynchronous because the UI may be the writer.
func (a *App) outputLost(err error) {
	if errors.Is(err, syscall.EPIPE) {
		return
	}
	a.telling.Go(func() {
		a.UI.Warn("%s the output cannot be written, and the rest of it is not shown: %v", a.UI.Paint(terminal.Red, "rayctl:"), err)
	})
}

// outputCode turns exit code 0 into CodeOutputLost if output was lost.
func (a *App) outputCode(code int) int {
	a.telling.Wait()
	if out, ok := a.Out.(*driverio.Stdout); ok && out.Err() != nil && code == 0 {
		return runstate.CodeOutputLost
	}
	return code
}

// report prints an error for the user and returns the exit code.
func (a *App) report(err error) int {
	a.UI.Clear()
	var silent Exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &silent):
		return int(silent)
	}
	for _, line := range strings.Split(strings.TrimRight(Sentence(err), "\n"), "\n") {
		a.UI.Warn("%s %s", a.UI.Paint(terminal.Red, "rayctl:"), line)
	}
	a.writeError(err)
	return ExitCode(err)
}

// writeError writes the error for the program that asked for it. What cannot be written is on stderr all the same.
func (a *App) writeError(err error) {
	if a.ErrorFile == "" {
		return
	}
	sentence, next := Sentence(err), ""
	var own *launcher.ExitError
	if errors.As(err, &own) && own.Hint != "" {
		next = strings.Join(strings.Fields(own.Hint), " ")
		sentence = strings.TrimSuffix(sentence, ": "+next)
	}
	text, err := json.Marshal(map[string]string{"sentence": sentence, "nextStep": next})
	if err == nil {
		err = os.WriteFile(a.ErrorFile, text, 0o600)
	}
	if err != nil {
		a.Logger().Debug("the error is not in the file of the caller", "error", err)
	}
}

// together matches cobra's error for flags of which only one may be given.
var together = regexp.MustCompile(`\[([^\]]+)\] were all set`)

// exclusive makes one sentence of cobra's error about a group of flags.
func exclusive(err error) error {
	found := together.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	names := strings.Fields(found[1])
	for i := range names {
		names[i] = "--" + names[i]
	}
	return UsageError("leave out all but one", "%s exclude one another", strings.Join(names, " and "))
}

// usage makes one sentence of cobra's error about the command line.
func usage(c *cobra.Command, err error) error {
	var e *launcher.ExitError
	if errors.As(err, &e) {
		return err
	}
	text, _, _ := strings.Cut(err.Error(), "\n")
	return UsageError("`"+c.CommandPath()+" --help` explains it", "%s", text)
}

// flagsHere stands in cobra's template of a command's usage for what flagHelp writes.
const flagsHere = "\x00"

// prepareHelp makes the help of all commands fit the terminal: texts and flags are wrapped between words, and long lists of flags are shown in groups.
func (a *App) prepareHelp(root *cobra.Command) {
	a.addHelpAll(root)
	before, rest, first := strings.Cut(root.UsageTemplate(), "{{if .HasAvailableLocalFlags}}")
	_, after, second := strings.Cut(rest, "{{if .HasHelpSubCommands}}")
	if !first || !second {
		panic("cobra's template of the usage has changed: see prepareHelp")
	}
	root.SetUsageTemplate(before + flagsHere + "{{if .HasHelpSubCommands}}" + after)
	root.SetHelpFunc(func(c *cobra.Command, _ []string) {
		text := c.Long
		if text == "" {
			text = c.Short
		}
		usage := strings.Replace(c.UsageString(), flagsHere, a.flagHelp(c), 1)
		width := terminal.HelpWidth(a.Out)
		_ = a.Paged(func(w io.Writer) error { // stdout keeps its errors itself
			_, err := fmt.Fprintf(w, "%s\n\n%s", terminal.FitHelp(terminal.Reflow(text, width), width), terminal.FitHelp(usage, width))
			return err
		})
	})
}
