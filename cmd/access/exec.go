// Package access has the verbs that reach into a cluster: exec, top, port-forward, dashboard, env, and the hidden verb tunnel, which env starts.
package access

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/spec"
)

type execOptions struct {
	config  app.ConfigFlags
	name    string
	node    string
	stdin   bool
	tty     bool
	command []string
}

// shell starts bash, or sh on a node that has no bash.
var shell = []string{"sh", "-c", "if command -v bash >/dev/null; then exec bash; fi; exec sh"}

// NewExec is `rayctl exec`.
func NewExec(a *app.App) *cobra.Command {
	o := &execOptions{}
	c := &cobra.Command{
		Use:     "exec [NAME] [--node NODE] [-- COMMAND...]",
		Aliases: []string{"ssh", "shell"},
		Short:   "Run a command or a shell on a node, in Ray's environment there",
		Long: "exec runs COMMAND on the head's node, or on NODE, and exits with the command's exit code. The arguments are passed unchanged, without a shell.\n" +
			"Without COMMAND, on a terminal, exec opens a shell; the names ssh and shell do the same.\n" +
			"If stdin and stdout are a terminal, the command runs on this terminal and gets Ctrl-C; with -i=false it has neither a terminal nor a stdin.\n" +
			"Otherwise the command has the stdin of exec only with -i. Without a terminal, Ctrl-C ends exec, and exec sends the command a signal to end.\n" +
			"On Kubernetes and over ssh exec can send no signal without a terminal: there the command continues.",
		Example: "  rayctl exec -- nvidia-smi\n  rayctl exec dev --node trainer-1 -- df -h /tmp\n  rayctl exec dev                      # a shell on the head's node\n  rayctl exec dev -i -- python < a.py",
		Args:    a.AtMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			own, command := app.SplitDash(c, args)
			o.name, o.command = app.First(own), command
			onTerminal := a.InTTY && a.OutTTY
			if !c.Flags().Changed("stdin") { // as docker compose exec
				o.stdin = onTerminal
				o.tty = o.tty || onTerminal && !c.Flags().Changed("tty")
			}
			if c.CalledAs() != c.Name() { // ssh and shell
				o.stdin, o.tty = true, onTerminal
			}
			if len(command) == 0 {
				if !onTerminal {
					return app.UsageError("write it like `rayctl exec dev -- nvidia-smi`", "`%s` needs a command after --, because it does not run on a terminal", c.CommandPath())
				}
				o.command, o.stdin, o.tty = shell, true, true
			}
			return a.Action(func(ctx context.Context) error { return runExec(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	f := c.Flags()
	f.StringVar(&o.node, "node", "", "name of the `NODE` (default: the head's)")
	a.CompleteNodes(c)
	f.BoolVarP(&o.stdin, "stdin", "i", false, "connect the stdin of rayctl to the command (default: on a terminal)")
	f.BoolVarP(&o.tty, "tty", "t", false, "with -i, run it on this terminal (default: on a terminal)")
	return c
}

// runExec runs one command on one node and takes over its exit code.
func runExec(ctx context.Context, a *app.App, o *execOptions) error {
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config})
	if err != nil {
		return err
	}
	request := launcher.ExecRequest{Node: o.node, Command: o.command, Stdout: commandOut(a, c.Launcher, o.tty), Stderr: a.Err, TTY: o.tty && o.stdin && a.InTTY, Shared: a.HandOn}
	if o.stdin {
		request.Stdin = a.In
	}
	if o.tty && !request.TTY { // the command gets no input from a terminal
		a.UI.Note("-t has no effect: it needs -i, and a terminal as stdin")
	}
	code, err := c.Launcher.Exec(ctx, c.ID, request)
	if err != nil {
		return err
	}
	return app.ExitOrNil(code)
}

// commandOut is where a command's stdout goes: rayctl's own stdout as the file that it is, without driverio.Stdout around it, if the command has the terminal,
// or is a process of this machine (srun, ssh, or the command itself). Such a process writes there itself, and reports a full disk itself.
func commandOut(a *app.App, l launcher.Launcher, tty bool) io.Writer {
	if out, ok := a.Out.(*driverio.Stdout); ok && (tty || spec.SubstrateOf(l.Name()).ExecHere) {
		return out.Writer()
	}
	return a.Out
}
