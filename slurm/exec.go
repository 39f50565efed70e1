package slurm

import (
	"context"
	"errors"
	"os/exec"
	"path"

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
	argv := append(c.overlap(host), "--unbuffered")
	if e.TTY {
		argv = append(argv, "--pty")
	}
	argv = append(argv, "env", "RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH="+path.Join(c.attemptDir(), keeper.TokenFile),
		"RAY_ADDRESS="+c.state.Head.Address, "RAYCTL_RUN="+c.name, "RAYCTL_PYTHON="+c.record.Python,
		"sh", "-c", `case "$RAYCTL_PYTHON" in /*) PATH="${RAYCTL_PYTHON%/*}:$PATH";; esac; exec "$@"`, "sh")
	cmd := l.site.runner.Command(ctx, append(argv, e.Command...)...)
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
