package raytest

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
)

//go:embed guard.py
var guard string

// Guarded is a running command. Kill, or the end of this process, kills it with all its descendants, wherever they moved.
type Guarded struct {
	process *exec.Cmd
	stdin   io.Closer
	exited  chan struct{}
	kill    sync.Once
}

// Guard starts the command (its arguments, environment, directory, stdout and stderr) below a guard, which python runs. dir is removed
// at the end, unless empty.
func Guard(python, dir string, command *exec.Cmd) (*Guarded, error) {
	process := exec.Command(python, append([]string{"-c", guard, dir}, command.Args...)...) //nolint:noctx // it must outlive a context, to end its descendants
	g := &Guarded{process: process, exited: make(chan struct{})}
	g.process.Env, g.process.Dir = command.Env, command.Dir
	g.process.Stdout, g.process.Stderr = command.Stdout, command.Stderr
	var err error
	if g.stdin, err = g.process.StdinPipe(); err != nil { // its end of file shows the guard that this process has ended
		return nil, err
	}
	ended, signal, err := os.Pipe() // descriptor 3, closed when the command has ended
	if err != nil {
		return nil, err
	}
	g.process.ExtraFiles = []*os.File{signal}
	err = g.process.Start()
	_ = signal.Close()
	if err != nil {
		_ = ended.Close()
		return nil, fmt.Errorf("start the guard of %s: %w", command.Args[0], err)
	}
	go func() {
		_, _ = ended.Read(make([]byte, 1))
		_ = ended.Close()
		close(g.exited)
	}()
	return g, nil
}

// Exited is closed when the command itself has ended; its descendants may live.
func (g *Guarded) Exited() <-chan struct{} { return g.exited }

// PID is the guard's. The command and its descendants, also orphaned ones (on Linux), are its descendants.
func (g *Guarded) PID() int { return g.process.Process.Pid }

// Terminate sends SIGTERM to the command.
func (g *Guarded) Terminate() error { return g.process.Process.Signal(syscall.SIGTERM) }

// Kill ends all of it at once and returns when nothing is left. It may be called twice.
func (g *Guarded) Kill() {
	g.kill.Do(func() {
		_ = g.stdin.Close()
		_ = g.process.Wait() // its exit code means nothing
	})
}
