package onemachine

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"syscall"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// keeperProcess is a keeper that this process started.
type keeperProcess struct {
	pipe  *os.File
	close sync.Once
	ended context.Context // done when the process has ended
}

// startKeeper starts the keeper in a session of its own. It inherits the pipe that is closed with our end, and no other file.
func (c *cluster) startKeeper(plan nodePlan) (*keeperProcess, error) {
	program, err := keeperzip.Write(c.l.scripts)
	if err != nil {
		return nil, writeFailed(c.l.scripts, err)
	}
	said, err := os.OpenFile(c.run.Path(errFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, writeFailed(c.run.Dir, err)
	}
	defer said.Close()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, launcher.Fail(runstate.CodeConfig, err, "close some programs or raise `ulimit -n`", "cannot start the keeper of %s: %v", c.run.Name, err)
	}
	defer reader.Close()
	argv := keeperCommand(plan.Env.Python, program, c.run.Dir)
	cmd := exec.Command(argv[0], argv[1:]...) //nolint:noctx // the keeper outlives this call and this process
	// A launch from within another cluster must not carry that cluster's marks.
	cmd.Env = append(Environment(), markerName+"="+c.run.Record.Mark)
	cmd.Dir = "/" // the keeper keeps no directory busy
	cmd.Stdin, cmd.Stdout, cmd.Stderr = reader, said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		writer.Close()
		return nil, launcher.Fail(runstate.CodeConfig, err, "check that it is a working Python", "cannot start the keeper of %s with %s: %v", c.run.Name, plan.Env.Python, err)
	}
	ended, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_ = cmd.Wait() // its result is in the run directory
	}()
	return &keeperProcess{pipe: writer, ended: ended}, nil
}

// keeperCommand is the keeper's argv. -E and -s keep the user's Python settings out of it; Ray's processes get them as they are.
func keeperCommand(python, program, dir string) []string {
	return []string{python, "-E", "-s", program, keeperzip.Keeper, dir}
}

// hangUp closes the pipe. The keeper then takes the commit if there is one, and ends otherwise.
func (k *keeperProcess) hangUp() { k.close.Do(func() { k.pipe.Close() }) }
