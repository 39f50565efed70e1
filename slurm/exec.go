package slurm

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path"
	"syscall"
	"time"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
)

// Exec runs a command on a node in a step of its own, beside Ray's, with what a driver needs to reach the cluster.
func (l *Launcher) Exec(ctx context.Context, id launcher.ID, e launcher.ExecRequest) (int, error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return 0, err
	}
	if len(e.Command) == 0 {
		return 0, launcher.Fail(launcher.CodeUsage, nil, "give one after --", "there is no command to run")
	}
	host, err := c.host(e.Node)
	if err != nil {
		return 0, err
	}
	argv := append(c.overlap(host), "--unbuffered", "--disable-status") // the first Ctrl-C is for the command, not for srun
	if e.TTY {
		argv = append(argv, "--pty")
	}
	argv = append(argv, "env", "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH="+path.Join(c.attemptDir(), keeper.TokenFile),
		"RAY_ADDRESS="+c.state.Head.Address, "RAYCTL_RUN="+c.name, "RAYCTL_PYTHON="+c.record.Python,
		"sh", "-c", `case "$RAYCTL_PYTHON" in /*) PATH="${RAYCTL_PYTHON%/*}:$PATH";; esac; exec "$@"`, "sh")
	cmd := l.command(ctx, e.TTY, append(argv, e.Command...))
	cmd.Cancel = func() error { return endGently(ctx, cmd.Process) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	case err != nil:
		return 0, launcher.Fail(launcher.CodeUnreachable, err, "", "cannot run a command on a node of %s: %v", c.name, err)
	}
	return 0, nil
}

// command prepares a command where Slurm's are. On a terminal, one there stands for this one.
func (l *Launcher) command(ctx context.Context, tty bool, argv []string) *exec.Cmd {
	if s, ok := l.site.runner.(*SSH); ok && tty {
		return exec.CommandContext(ctx, "ssh", append(s.options(), "-o", "LogLevel=ERROR", "-tt", "--", s.Host, shellescape.QuoteCommand(argv))...)
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
