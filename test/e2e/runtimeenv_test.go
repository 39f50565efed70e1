package e2e

import (
	"regexp"
	"slices"
	"strings"
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

// suggested is the flag in the note about a module that the driver does not find.
var suggested = regexp.MustCompile("Python has no module iniconfig: `(-[^`]+)`")

// TestPackages: a job without its module fails and is told the flag, with that flag it succeeds: by name, and by the requirements file of this directory, beside which
// single packages are installed. TestRunShapesItsReceipt has --uv.
func TestPackages(t *testing.T) {
	u := sharedCluster(t)
	u.write("plain/main.py", "import iniconfig\nprint('plain', iniconfig.__name__)\n")
	u.write("listed/main.py", "import iniconfig, toolz, wcwidth\nfrom importlib.metadata import version\nprint('listed', version('iniconfig'), version('toolz'), version('wcwidth'))\n")
	u.write("listed/requirements.txt", "# tests\niniconfig==2.0.0\n")
	dir := u.dir
	for _, c := range []struct {
		dir, flags string
		more       []string
		printed    string
	}{
		{"plain", "--pip iniconfig", nil, "plain iniconfig\n"},
		{"listed", "-r requirements.txt", []string{"--pip", "toolz==1.0.0", "--with", "wcwidth==0.2.13"}, "listed 2.0.0 1.0.0 0.2.13\n"},
	} {
		u.dir = dir + "/" + c.dir
		said := u.want(1, "submit", "shared", "--working-dir", ".", "--", "python", "main.py").err
		flags := suggested.FindStringSubmatch(said)
		if flags == nil || flags[1] != c.flags {
			t.Fatalf("the note suggests %q, want %q: %s", flags, c.flags, said)
		}
		args := slices.Concat([]string{"submit", "shared", "--working-dir", "."}, strings.Fields(flags[1]), c.more, []string{"--", "python", "main.py"})
		if got := u.want(0, args...).out; got != c.printed {
			t.Errorf("%s: printed %q, want %q", c.flags, got, c.printed)
		}
	}
}
