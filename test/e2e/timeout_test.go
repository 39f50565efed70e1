package e2e

import (
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
)

// TestTimeout: `timeout` signals rayctl and then the group of both. That is one request: the driver gets its grace.
func TestTimeout(t *testing.T) {
	u := newUser(t)
	u.write("wd/main.py", strings.Replace(patient, "    print", "    time.sleep(2)\n    print", 1))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := u.command(ctx, "run", "--name", "limited", "--grace", "1m", "--working-dir", "wd", "--", "python", "main.py")
	c.Path, c.Args = needs.Program(t, "timeout", "coreutils"), append([]string{"timeout", "10m", c.Path}, c.Args[1:]...)
	s := startScreen(t, c, false)
	s.until("ready", 1)
	// SIGALRM is what timeout's timer sends it when the 10 minutes are over. Again, because the kernel merges signals that come at the same time.
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; time.Sleep(5 * time.Millisecond) {
		s.cmd.Process.Signal(syscall.SIGALRM)
	}
	if code := s.code(); code != 124 { // timeout's own
		t.Errorf("exit code %d, %q", code, s)
	}
	contains(t, "the output", s.String(), "saved")
	if st := decode[launcher.Status](t, u.want(0, "status", "limited", "-o", "json").out); st.Exit == nil || st.Exit.Cause != runstate.CauseInterrupted {
		t.Errorf("%+v", st.Exit)
	}
}
