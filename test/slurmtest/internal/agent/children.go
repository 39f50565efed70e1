//go:build linux

package agent

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// children are the processes of an agent. As process 1 the agent also reaps orphans, so it waits for all of them in one place
// and never with exec.Cmd.Wait.
type children struct {
	mu    sync.Mutex
	named map[string]*child
	byPID map[int]*child
}

type child struct {
	pid    int
	status syscall.WaitStatus // valid once done is closed
	done   chan struct{}
}

func reapChildren() *children {
	c := &children{named: map[string]*child{}, byPID: map[int]*child{}}
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	go func() {
		for range died {
			c.reap()
		}
	}()
	return c
}

func (c *children) reap() {
	for {
		var status syscall.WaitStatus
		c.mu.Lock() // so that a child is registered before it is reaped
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		if ch := c.byPID[pid]; pid > 0 && ch != nil {
			delete(c.byPID, pid)
			ch.status = status
			close(ch.done)
		}
		c.mu.Unlock()
		if pid <= 0 && err != syscall.EINTR {
			return
		}
	}
}

// start starts cmd, which must use files only for its standard streams. A child with an empty name is not remembered.
func (c *children) start(name string, cmd *exec.Cmd) error {
	_, err := c.launch(name, cmd)
	return err
}

func (c *children) launch(name string, cmd *exec.Cmd) (*child, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ch := &child{pid: cmd.Process.Pid, done: make(chan struct{})}
	c.byPID[ch.pid] = ch
	if name != "" {
		c.named[name] = ch
	}
	return ch, nil
}

// run runs cmd to its end and returns its output and its exit code (128 and the signal if one killed it).
func (c *children) run(cmd *exec.Cmd) ([]byte, int, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, 0, err
	}
	defer func() { _ = r.Close() }()
	cmd.Stdout, cmd.Stderr = w, w
	ch, err := c.launch("", cmd)
	_ = w.Close()
	if err != nil {
		return nil, 0, err
	}
	out, err := io.ReadAll(r)
	<-ch.done
	if ch.status.Signaled() {
		return out, 128 + int(ch.status.Signal()), err
	}
	return out, ch.status.ExitStatus(), err
}

// signal signals a named child that runs. With SIGSTOP it has stopped then.
func (c *children) signal(name string, sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := c.named[name]
	if ch == nil || c.byPID[ch.pid] != ch {
		return fmt.Errorf("%s does not run", name)
	}
	if err := syscall.Kill(ch.pid, sig); err != nil || sig != syscall.SIGSTOP {
		return err
	}
	// The parent gets SIGCHLD when all threads have stopped; until then some go on (see test/faults, for processes that are not ours).
	return unix.Waitid(unix.P_PID, ch.pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
}

// stop signals a named child and waits for its end.
func (c *children) stop(name string, sig syscall.Signal) {
	c.mu.Lock()
	ch := c.named[name]
	delete(c.named, name)
	if ch != nil && c.byPID[ch.pid] == ch {
		_ = syscall.Kill(ch.pid, sig)
	}
	c.mu.Unlock()
	if ch != nil {
		<-ch.done
	}
}
