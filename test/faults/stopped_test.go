package faults

import (
	"os/exec"
	"syscall"
	"testing"
)

func TestStop(t *testing.T) {
	c := exec.CommandContext(t.Context(), "sh", "-c", "while :; do :; done")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid := c.Process.Pid
	if all, err := allStopped(pid); all || err != nil {
		t.Errorf("before: %v, %v", all, err)
	}
	if err := Stop(pid); err != nil {
		t.Error(err)
	}
	if all, err := allStopped(pid); !all || err != nil {
		t.Errorf("stopped: %v, %v", all, err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = c.Wait()
	if err := Stop(pid); err == nil {
		t.Error("a process that has ended was stopped")
	}
}
