package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestDetached detaches from runs in each way, in CI where a vanished client would end them, and attaches again.
func TestDetached(t *testing.T) {
	u := newUser(t)
	u.env = []string{"CI=true"}
	u.write("wd/main.py", patient)
	args := []string{"--working-dir", "wd", "--", "python", "main.py"}
	name := strings.TrimSpace(u.want(0, append([]string{"run", "--detach"}, args...)...).out)
	forever := func() {
		t.Helper()
		s := decode[launcher.Status](t, u.want(0, "status", name, "-o", "json").out)
		if s.EndOnDisconnect != 0 {
			t.Errorf("%s ends by itself, %v after its client", name, s.EndOnDisconnect)
		}
	}
	forever()
	s := u.start(false, append([]string{"run", "--name", name, "--end-on-disconnect", "--on-interrupt", "detach"}, args...)...)
	s.until("ready", 1)
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.code(); code != 0 || !strings.Contains(s.String(), "keeps running") {
		t.Fatalf("--on-interrupt detach: exit code %d, %q", code, s)
	}
	forever()
	s = u.start(true, append([]string{"run", "--name", name, "--on-interrupt", "stop"}, args...)...)
	s.until("ready", 1)
	s.key(ctrlC)
	if code := s.code(); code != runstate.CodeInterrupted || strings.Contains(s.String(), "[s/d/c]") {
		t.Errorf("--on-interrupt stop: exit code %d, %q", code, s)
	}
	contains(t, "the screen", s.String(), "saved")
}
