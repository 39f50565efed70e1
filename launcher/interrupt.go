package launcher

import (
	"context"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Interruption is the cause of a context that was ended by a signal to this process.
type Interruption struct{ Signal os.Signal }

func (i Interruption) Error() string { return "interrupted by the signal: " + i.Signal.String() }

// SignalFor returns the signal to send to a child of this process when ctx has ended: the signal that ended ctx, else SIGTERM. It returns nil for the
// SIGINT of a terminal, which the child has received too: a second SIGINT would interrupt the child's reaction to the first.
func SignalFor(ctx context.Context) os.Signal {
	var by Interruption
	if !errors.As(context.Cause(ctx), &by) {
		return syscall.SIGTERM
	}
	if by.Signal == syscall.SIGINT && inForeground() {
		return nil
	}
	return by.Signal
}

// inForeground reports whether keys of a terminal signal this process.
func inForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false // there is no terminal
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
