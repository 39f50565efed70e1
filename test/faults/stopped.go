package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Stop stops a process with SIGSTOP, and returns once all of its threads have stopped: kill(2) returns before, and until the thread that the kernel chose
// takes the signal, which on a busy machine can last for seconds, the other threads go on (linux/kernel/signal.c, do_signal_stop). A process that has ended is an error.
func Stop(pid int) error {
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	for {
		all, err := allStopped(pid)
		if all || err != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// allStopped reports whether the state of each thread, which follows the name in parentheses in /proc/PID/task/TID/stat (proc(5)), is stopped.
func allStopped(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		return false, errors.Join(err, fmt.Errorf("process %d has ended", pid))
	}
	for _, file := range threads {
		stat, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it ended meanwhile
		}
		if err != nil {
			return false, err
		}
		after := stat[bytes.LastIndexByte(stat, ')')+1:]
		if !bytes.HasPrefix(after, []byte(" T ")) && !bytes.HasPrefix(after, []byte(" t ")) {
			return false, nil
		}
	}
	return true, nil
}
