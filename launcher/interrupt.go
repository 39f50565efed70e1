package launcher

import (
	"context"
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Interruption is the cause of a context that a signal to this process has ended.
type Interruption struct{ Signal os.Signal }

func (i Interruption) Error() string { return "interrupted by the signal: " + i.Signal.String() }

// SignalFor is what a child of this process is to be told when ctx has ended: the signal that ended it, else SIGTERM. It is nil where the
// child knows: a terminal gives its SIGINT to both, and a second one would break into what the child does about the first.
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

// inForeground says whether a terminal's keys signal this process.
func inForeground() bool {
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false // there is none
	}
	defer terminal.Close()
	group, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
