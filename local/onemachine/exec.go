package onemachine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Exec runs a command with the environment that the cluster's drivers have. All nodes are this machine; the command is not part of
// the cluster and may outlive it.
func (l *Launcher) Exec(ctx context.Context, id launcher.ID, e launcher.ExecRequest) (int, error) {
	c, st, err := l.running(id)
	if err != nil {
		return 0, err
	}
	if err := c.hasNode(st, e.Node); err != nil {
		return 0, err
	}
	if len(e.Command) == 0 {
		return 0, launcher.Fail(runstate.CodeUsage, nil, "give one after --", "there is no command to run")
	}
	env, err := c.environment(st)
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, lookPath(e.Command[0], filepath.Dir(c.run.Record.Python)), e.Command[1:]...)
	cmd.Cancel = func() error { return endGently(ctx, cmd.Process) }
	cmd.Args[0] = e.Command[0]
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, e.Stdin, e.Stdout, e.Stderr
	if e.TTY && e.Shared != nil {
		e.Shared()
	}
	if err := cmd.Start(); err != nil {
		return 0, cannotRun(e.Command[0], err)
	}
	err = cmd.Wait()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	code, err := launcher.CommandCode(err)
	if err != nil {
		return 0, fmt.Errorf("pass on what %q reads and writes: %w", e.Command[0], err)
	}
	return code, nil
}

// grace is how long a command may take to end after it was asked to.
const grace = 10 * time.Second

// endGently asks a process to end, and kills it after its grace. This is not exec.Cmd's WaitDelay, because that also cuts off output which
// is slow to be taken after an end in good order.
func endGently(ctx context.Context, p *os.Process) error {
	time.AfterFunc(grace, func() { _ = p.Kill() }) // which does nothing once it has ended
	if s := launcher.SignalFor(ctx); s != nil {
		return p.Signal(s)
	}
	return nil
}

// cannotRun has the exit codes of shells (POSIX, Shell Command Language, 2.8.2): 127 for a command that is not found, 126 for one that
// cannot be executed.
func cannotRun(command string, err error) error {
	code := 126
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		code = 127
	}
	return launcher.Fail(code, err, "check its name and that it may be executed", "cannot run %q: %v", command, err)
}

// environment is what `ray start` got, and how Ray's own tools find the cluster.
func (c *cluster) environment(st *runstate.State) ([]string, error) {
	bin := filepath.Dir(c.run.Record.Python)
	env := append(environmentWithout(markerName, nodeMarkerName, "RAY_AUTH_TOKEN"),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"RAY_ADDRESS="+st.Head.Address, "RAY_API_SERVER_ADDRESS="+st.Head.Dashboard,
		launcher.StatusVariable+"="+launcher.StatusValue,
	)
	mode := "disabled"
	if st.Head.Token && st.Head.Address != "" { // else there is no head yet, and nobody to send a token to
		_, path, err := c.run.Files.RayToken(st.Head)
		if err != nil {
			return nil, c.notReady("head")
		}
		mode = "token"
		env = append(env, "RAY_AUTH_TOKEN_PATH="+path)
	}
	env = append(env, "RAY_AUTH_MODE="+mode)
	for k, v := range c.run.Record.Spec.Env {
		env = append(env, k+"="+v)
	}
	secrets := map[string]string{}
	b, err := os.ReadFile(c.run.Path(keeper.SecretsFile))
	if err == nil {
		err = json.Unmarshal(b, &secrets)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, launcher.Fail(runstate.CodeInternal, err, "`rayctl down "+c.run.Name+"` ends the cluster; then launch it again", "the secrets of %s cannot be read", c.run.Name)
	}
	for k, v := range secrets {
		env = append(env, k+"="+v)
	}
	return env, nil
}

// lookPath finds a command first beside Ray's Python, where `python` and `ray` of the cluster are.
func lookPath(name, bin string) string {
	if !strings.ContainsRune(name, filepath.Separator) {
		if path, err := exec.LookPath(filepath.Join(bin, name)); err == nil {
			return path
		}
	}
	return name
}

// ExecOnHost runs a command on this machine.
func (l *Launcher) ExecOnHost(ctx context.Context, e launcher.ExecRequest) (int, error) {
	cmd := exec.CommandContext(ctx, e.Command[0], e.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = e.Stdin, e.Stdout, e.Stderr
	return launcher.CommandCode(cmd.Run())
}

// FindTools is the directory of the Python that runs the cluster.
func (l *Launcher) FindTools(_ context.Context, id launcher.ID) (string, error) {
	c, _, err := l.running(id)
	if err != nil {
		return "", err
	}
	return filepath.Dir(c.run.Record.Python), nil
}
