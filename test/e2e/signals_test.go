package e2e

import (
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestSignalsWithoutTerminal: SIGINT and SIGTERM end the run by the keeper, and SIGHUP detaches.
func TestSignalsWithoutTerminal(t *testing.T) {
	u := newUser(t)
	u.write("wd/main.py", patient)
	s := u.start(false, "run", "--name", "batch", "--working-dir", "wd", "--", "python", "main.py")
	s.until("ready", 1)
	s.cmd.Process.Signal(syscall.SIGHUP)
	if code := s.code(); code != 0 {
		t.Fatalf("SIGHUP: exit code %d, %q", code, s)
	}
	s = u.start(false, "run", "--name", "batch", "--working-dir", "wd", "--", "python", "main.py")
	s.until("ready", 1)
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("SIGTERM: exit code %d, %q", code, s)
	}
	contains(t, "the output", s.String(), "saved")
}
