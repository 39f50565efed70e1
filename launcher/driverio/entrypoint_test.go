package driverio_test

import (
	"strings"
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

// TestTitle: what Ray shows as a job begins with the user's command, whose text is never run twice, and which is found in it again.
func TestTitle(t *testing.T) {
	for command, title := range map[string]string{
		"python a.py":                      "# python a.py\n",
		"\n  python a.py \\\n --x\nexit 3": "# python a.py\n",
		"# mine\npython a.py":              "# # mine\n",
		"":                                 "",
		strings.Repeat("é", 300):           "# " + strings.Repeat("é", 200) + "\n",
	} {
		for _, dir := range []string{"", "/x\ny"} {
			line, _ := driverio.Piped(driverio.InDirectory(dir, command, true))
			if !strings.HasPrefix(line, title) || title == "" && dir == "" && line != "" {
				t.Errorf("%q in %q: %q", command, dir, line)
			}
			if got := driverio.UserCommand(line); got != command {
				t.Errorf("%q in %q: the user's command is %q", command, dir, got)
			}
			if got := driverio.Directory(line); got != dir {
				t.Errorf("%q in %q: the directory is %q", command, dir, got)
			}
		}
	}
	if got := driverio.UserCommand("eval \"$RAYCTL_PIPE\"\npython a.py"); got != "python a.py" { // an earlier rayctl's
		t.Error(got)
	}
	if own := "# python a.py\npython a.py"; driverio.UserCommand(own) != own {
		t.Error("a comment of the user is removed")
	}
}

// TestDirectory: what InDirectory writes is read back.
func TestDirectory(t *testing.T) {
	for _, dir := range []string{"/root/st1/proj", "/a b/c'd/$e", ""} {
		for _, optional := range []bool{true, false} {
			if got := driverio.Directory(driverio.InDirectory(dir, "python a.py", optional)); got != dir {
				t.Errorf("%q is read as %q", dir, got)
			}
		}
	}
}
