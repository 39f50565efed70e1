package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/templates"
)

// Exec runs a command on a node in a step of its own, beside Ray's, with what a driver needs to reach the cluster.
func (l *Launcher) Exec(ctx context.Context, id launcher.ID, e launcher.ExecRequest) (int, error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return 0, err
	}
	if len(e.Command) == 0 {
		return 0, launcher.Fail(runstate.CodeUsage, nil, "give one after --", "there is no command to run")
	}
	host, err := c.host(e.Node)
	if err != nil {
		return 0, err
	}
	if e.TTY {
		return c.onTerminal(ctx, e, append(append(c.overlap(host), "--unbuffered", "--disable-status", "--pty"), c.inRay(e.Command)...))
	}
	program, err := c.l.program(ctx, templates.SlurmExec)
	if err != nil {
		return 0, err
	}
	argv := append(c.overlap(host), "--unbuffered", "--disable-status", c.plan(0).HostPython(), "-E", "-s", "-S", program)
	return c.apart(ctx, e, host, append(argv, c.inRay(e.Command)...))
}

// inRay is a command with what a driver needs to reach the cluster.
func (c *cluster) inRay(command []string) []string {
	argv := []string{"env", "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH=" + path.Join(c.attemptDir(), keeper.TokenFile),
		"RAY_ADDRESS=" + c.state.Head.Address, "RAYCTL_RUN=" + c.name, "RAYCTL_PYTHON=" + c.record.Python,
		"sh", "-c", `case "$RAYCTL_PYTHON" in /*) PATH="${RAYCTL_PYTHON%/*}:$PATH";; esac; exec "$@"`, "sh"}
	return append(argv, command...)
}

// program is the path of one of the keeper's files, of this version: the cluster's own may be another.
func (l *Launcher) program(ctx context.Context, name string) (string, error) {
	dir, _, err := l.arrive(ctx)
	if err != nil {
		return "", err
	}
	programs := programsIn(dir)
	if err := l.writePrograms(ctx, programs); err != nil {
		return "", (&cluster{l: l, dir: programs}).writeFailed(err)
	}
	return path.Join(programs, name), nil
}

// onTerminal runs a command on this process's terminal. The first Ctrl-C is for the command, not for srun (--disable-status).
func (c *cluster) onTerminal(ctx context.Context, e launcher.ExecRequest, argv []string) (int, error) {
	cmd := c.l.command(ctx, true, argv)
	cmd.Cancel = func() error { return endGently(ctx, cmd.Process) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	case err != nil:
		return 0, c.notRun("a node", err.Error(), err)
	}
	return 0, nil
}

// apart runs a command without a terminal: what it writes comes back byte for byte, its standard output and error apart, and nothing of srun's.
func (c *cluster) apart(ctx context.Context, e launcher.ExecRequest, host string, argv []string) (int, error) {
	cmd := c.l.command(ctx, false, argv)
	cmd.Cancel = func() error { return endGently(ctx, cmd.Process) }
	frames, said := &execFrames{stdout: e.Stdout, stderr: e.Stderr}, &remote.Tail{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, frames, said
	err := cmd.Run()
	code, ended := frames.exitCode()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case frames.broken != nil:
		return 0, fmt.Errorf("pass on what %q writes: %w", e.Command[0], frames.broken)
	case ended:
		return code, nil
	case !frames.begun && notInstalled(err) && said.LastLine() == "":
		return 0, c.l.noSlurm(err)
	case err == nil:
		err = remote.ErrCut
	}
	why := remote.Complaint(said)
	if why == "" {
		why = err.Error()
	}
	return 0, c.notRun(host, why, err)
}

func (c *cluster) notRun(host, why string, err error) error {
	return launcher.Fail(runstate.CodeUnreachable, err, "`rayctl status "+c.name+"` says whether it still runs", "the command's step on %s of %s did not come to its end: %s", host, c.name, why)
}

// command prepares a command where Slurm's are. On a terminal, one there stands for this one.
func (l *Launcher) command(ctx context.Context, tty bool, argv []string) *exec.Cmd {
	if s, ok := l.site.runner.(*remote.SSH); ok && tty {
		return s.TerminalCommand(ctx, argv...)
	}
	return l.site.runner.Command(ctx, argv...)
}

// grace is how long a command may take to end after it was asked to, and then srun after it was told to kill it.
const grace = 10 * time.Second

// endGently lets srun ask its command to end: SIGINT is the signal that it passes on, at SIGTERM it kills. Killed itself, it would leave the
// command running.
func endGently(ctx context.Context, srun *os.Process) error {
	time.AfterFunc(grace, func() { _ = srun.Signal(syscall.SIGTERM) }) // which do nothing once it has ended
	time.AfterFunc(2*grace, func() { _ = srun.Kill() })
	if launcher.SignalFor(ctx) == nil {
		return nil
	}
	return srun.Signal(syscall.SIGINT)
}
