package tunnels

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/tail"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/site"
)

// Exec runs a command on a node in a step of its own, beside Ray's, with what a driver needs to reach the cluster.
func Exec(ctx context.Context, s *site.Site, run *rundir.Run, host string, e launcher.ExecRequest) (int, error) {
	if e.TTY {
		return onTerminal(ctx, s, run, e, append(append(overlap(run, host), "--unbuffered", "--disable-status", "--pty"), inRay(run, e.Command)...))
	}
	program, err := s.Runs.Program(ctx)
	if err != nil {
		return 0, err
	}
	plan := script.PlanOf(run, 0)
	argv := append(overlap(run, host), "--unbuffered", "--disable-status")
	argv = append(argv, plan.OnHost(append([]string{plan.HostPython(), "-E", "-s", "-S", program, script.RoleExec}, inRay(run, e.Command)...)...)...)
	return apart(ctx, s, run, e, host, argv)
}

// inRay is a command with what a driver needs to reach the cluster.
func inRay(run *rundir.Run, command []string) []string {
	argv := []string{"env"}
	if run.State.Head.Address != "" { // else there is no head yet, and nobody to send a token to
		argv = append(argv, "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH="+run.RayTokenPath())
	}
	argv = append(argv, "RAY_ADDRESS="+run.State.Head.Address, launcher.StatusVariable+"="+launcher.StatusValue, "RAYCTL_RUN="+run.Name, "RAYCTL_PYTHON="+run.Record.Python,
		"sh", "-c", `case "$RAYCTL_PYTHON" in /*) PATH="${RAYCTL_PYTHON%/*}:$PATH";; esac; exec "$@"`, "sh")
	return append(argv, command...)
}

// onTerminal runs a command on this process's terminal. The first Ctrl-C is for the command, not for srun (--disable-status).
func onTerminal(ctx context.Context, s *site.Site, run *rundir.Run, e launcher.ExecRequest, argv []string) (int, error) {
	cmd := command(ctx, s, true, argv)
	cmd.Cancel = func() error { return endGently(ctx, cmd.Process) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return exit.ExitCode(), nil
	case err != nil:
		return 0, notRun(run, "a node", err.Error(), err)
	}
	return 0, nil
}

// apart runs a command without a terminal: what it writes comes back byte for byte, its standard output and error apart, and nothing of srun's.
func apart(ctx context.Context, s *site.Site, run *rundir.Run, e launcher.ExecRequest, host string, argv []string) (int, error) {
	cmd := command(ctx, s, false, argv)
	cmd.Cancel = func() error { return endGently(ctx, cmd.Process) }
	out, said := &frames{stdout: e.Stdout, stderr: e.Stderr}, &tail.Tail{}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, out, said
	err := cmd.Run()
	code, ended := out.exitCode()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case out.broken != nil:
		return 0, fmt.Errorf("pass on what %q writes: %w", e.Command[0], out.broken)
	case ended:
		return code, nil
	case !out.begun && site.NotInstalled(err) && said.LastLine() == "":
		return 0, s.NoSlurm(err)
	case err == nil:
		err = remote.ErrCut
	}
	why := remote.Complaint(said)
	if why == "" {
		why = err.Error()
	}
	return 0, notRun(run, host, why, err)
}

func notRun(run *rundir.Run, host, why string, err error) error {
	return launcher.Fail(runstate.CodeUnreachable, err, "`rayctl status "+run.Name+"` shows whether it still runs", "the command's step on %s of %s ended early: %s", host, run.Name, why)
}

// command prepares a command where Slurm's are. On a terminal, one there stands for this one.
func command(ctx context.Context, s *site.Site, tty bool, argv []string) *exec.Cmd {
	if ssh, ok := s.Runner.(*remote.SSH); ok && tty {
		return ssh.TerminalCommand(ctx, argv...)
	}
	return s.Runner.Command(ctx, argv...)
}

// grace is how long a command may take to end after SIGINT, and then srun after SIGTERM, at which it kills the command.
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
