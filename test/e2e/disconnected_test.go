package e2e

import (
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestDisconnected: the run of a killed client ends, because it runs in CI.
func TestDisconnected(t *testing.T) {
	u := newUser(t)
	u.env = []string{"CI=true"}
	s := u.start(false, "run", "--name", "orphan", "--", "python", "-c", patient)
	s.until("ready", 1)
	if st := decode[launcher.Status](t, u.want(0, "status", "orphan", "-o", "json").out); st.EndOnDisconnect != 120 {
		t.Errorf("end-on-disconnect in CI: %v", st.EndOnDisconnect)
	}
	s.cmd.Process.Kill()
	s.code()
	again := u.start(false, "run", "--name", "orphan", "--end-on-disconnect=5s", "--", "python", "-c", patient)
	again.until("ready", 1)
	again.cmd.Process.Kill()
	again.code()
	contains(t, "logs", u.want(runstate.CodeInterrupted, "logs", "-f", "orphan").out, "saved")
}
