package e2e

import (
	"testing"
)

// TestRuntimeEnvironmentsCause: an exception in Ray's own agent, for which Ray returns only "maybe there are some network problems", is shown and saved.
func TestRuntimeEnvironmentsCause(t *testing.T) {
	u := newUser(t)
	const cause = "FileNotFoundError: [Errno 2] No such file or directory: '/no/such.txt'"
	r := u.want(73, "run", "--name", "pip", "--set", "job.pip=[\"-r /no/such.txt\"]", "--", "true")
	contains(t, "stderr", r.err, "the driver did not start: "+cause)
	contains(t, "the saved log", u.want(0, "logs", "pip").out, "Ray's runtime_env_agent.err:", cause)
}
