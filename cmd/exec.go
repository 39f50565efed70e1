package cmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

type execOptions struct {
	config  configOptions
	name    string
	node    string
	stdin   bool
	tty     bool
	command []string
}

func newExec(a *App) *cobra.Command {
	o := &execOptions{}
	c := &cobra.Command{
		Use:   "exec [NAME] [--node NODE] -- COMMAND...",
		Short: "Run a command on a node, in Ray's environment there",
		Long: "exec runs COMMAND on the head's node or on another one and exits with its exit code. Its arguments reach it unchanged; no shell is between.\n" +
			"With -it it is on this terminal, and Ctrl-C is its own. Without, Ctrl-C ends exec, and asks the command to end where signals reach it: not on\n" +
			"Kubernetes, nor by ssh.",
		Example: "  rayctl exec -- nvidia-smi\n  rayctl exec dev --node trainer-1 -- ray status\n  rayctl exec -it -- bash",
		Args: func(c *cobra.Command, args []string) error {
			own, command := splitDash(c, args)
			if len(command) == 0 {
				return usageError("write it like `rayctl exec dev -- ray status`", "`rayctl exec` needs a command behind --")
			}
			if len(own) > 1 {
				return usageError("a command to run goes behind --", "`rayctl exec` takes one name, and %q is one too many", own[1])
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			own, command := splitDash(c, args)
			o.name, o.command = first(own), command
			return a.action(func(ctx context.Context) error { return runExec(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.completeClusters,
	}
	o.config.addSelection(c)
	f := c.Flags()
	f.StringVar(&o.node, "node", "", "name of the `NODE` (default: the head's)")
	f.BoolVarP(&o.stdin, "stdin", "i", false, "pass this command's stdin on")
	f.BoolVarP(&o.tty, "tty", "t", false, "with -i, run it on this terminal")
	return c
}

// runExec runs one command on one node and takes over its exit code.
func runExec(ctx context.Context, a *App, o *execOptions) error {
	c, err := a.find(ctx, findOptions{name: o.name, config: &o.config})
	if err != nil {
		return err
	}
	e, err := ability[launcher.Execer](c.l, "exec")
	if err != nil {
		return err
	}
	request := launcher.ExecRequest{Node: o.node, Command: o.command, Stdout: a.commandOut(c.l, o.tty), Stderr: a.Err, TTY: o.tty && o.stdin && a.InTTY, Shared: a.handOn}
	if o.stdin {
		request.Stdin = a.In
	}
	if o.tty && !request.TTY { // no input is possible
		a.ui.note("-t has no effect: it needs -i, and a terminal as stdin")
	}
	code, err := e.Exec(ctx, c.id, request)
	if err != nil {
		return err
	}
	return codeOrNil(code)
}

// commandOut is stdout for a command. A command that is a process of this machine (srun, ssh, or the command itself) gets the stream itself: it may be a
// terminal, and that process reports a full disk itself.
func (a *App) commandOut(l launcher.Launcher, tty bool) io.Writer {
	if out, ok := a.Out.(*launcher.Stdout); ok && (tty || l.Name() != spec.LauncherKubeRay) {
		return out.Writer()
	}
	return a.Out
}
