package e2e

import (
	"os"
	"testing"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestBrokenRay runs with a Python without Ray, a Ray of another version, and a missing driver.
func TestBrokenRay(t *testing.T) {
	u := newUser(t)
	u.env = []string{"RAYCTL_RAY_VERSION=2.40.0"}
	contains(t, "another version", u.want(runstate.CodeConfig, "run", "--", "true").err, "2.40.0", "2.60.0")
	script := u.write("python", "#!/bin/sh\nexit 1\n")
	if err := os.Chmod(script, 0o755); err != nil {
		t.Fatal(err)
	}
	u.env = []string{"RAYCTL_RAY_PYTHON=" + script}
	u.want(runstate.CodeConfig, "run", "--name", "broken", "--", "true")
	u.env = nil
	contains(t, "a run that was refused", u.want(0, "history").out, "broken", "78")
	shell := u.want(127, "run", "--", "no-such-program; true")
	contains(t, "no such driver", shell.out, "not found")
	contains(t, "the hint", shell.err, "sh -c 'no-such-program; true'")
}
