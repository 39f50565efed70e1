package driverio_test

import (
	"testing"

	"github.com/rayctl/rayctl/launcher/driverio"
)

// TestUserCommand: the line that enters a directory is not the user's, whatever the directory's name, and nothing else is removed.
func TestUserCommand(t *testing.T) {
	for _, dir := range []string{"", "/home/ann", "/a b", "/it's", "/x\ny || exit 1\nz", "/'", `/"q" $(x)`} {
		for _, command := range []string{"python a.py", "cd x || exit 1\npython a.py", "cd -- y && a"} {
			for _, optional := range []bool{false, true} {
				if got := driverio.UserCommand(driverio.InDirectory(dir, command, optional)); got != command {
					t.Errorf("in %q: %q, want %q", dir, got, command)
				}
			}
		}
	}
	for _, name := range []string{"driver", "job.prepare"} {
		if got := driverio.UserCommand("echo '==> " + name + " <=='\ncd -- /a || exit 1\npython a.py"); got != "python a.py" {
			t.Error(got)
		}
	}
	// As Python's shlex.quote quotes (keeper/rayctl_keeper/driver/rayjob.py).
	if got := driverio.UserCommand("cd -- '/it'\"'\"'s here' || exit 1\npython a.py"); got != "python a.py" {
		t.Error(got)
	}
}
