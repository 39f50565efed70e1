package e2e

import (
	"archive/zip"
	"bytes"
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
	u.dir = dir
	localPackages(t, u)
}

// localPackages: requirements with local paths are installed from the working directory that is sent, again when a file of it has changed, and a variable of a .env
// file adds to the node's own.
func localPackages(t *testing.T, u *user) {
	t.Helper()
	u.write("local/requirements.txt", "--no-index\n--find-links ./wheels\nfirst\n./vendor/second-1.0-py3-none-any.whl\n-c constraints.txt\n")
	u.write("local/constraints.txt", "first==1.0\n")
	u.write("local/.env", "\ufeffPATH=/opt/tools/bin:$PATH\r\n")
	u.write("local/main.py", "import first, os, second, shutil\nprint(first.text, second.text, ':/opt/tools/bin:/' in ':' + os.environ['PATH'], bool(shutil.which('env')))\n")
	u.write("local/wheels/first-1.0-py3-none-any.whl", wheel(t, "first", "1.0", "one"))
	u.write("local/wheels/first-2.0-py3-none-any.whl", wheel(t, "first", "2.0", "too new"))
	u.dir += "/local"
	for _, text := range []string{"two", "changed"} {
		u.write("vendor/second-1.0-py3-none-any.whl", wheel(t, "second", "1.0", text))
		got := u.want(0, "submit", "shared", "--working-dir", ".", "-r", "requirements.txt", "--env-file", ".env", "--", "python", "main.py").out
		if want := "one " + text + " True True\n"; got != want {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
}

// wheel is a wheel of one module whose text is a variable.
func wheel(t *testing.T, name, version, text string) string {
	t.Helper()
	var out bytes.Buffer
	z, info := zip.NewWriter(&out), name+"-"+version+".dist-info/"
	for _, file := range [][2]string{
		{name + ".py", "text = '" + text + "'\n"}, {info + "METADATA", "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: rayctl\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}, {info + "RECORD", name + ".py,,\n" + info + "METADATA,,\n" + info + "WHEEL,,\n" + info + "RECORD,,\n"},
	} {
		w, err := z.Create(file[0])
		if err == nil {
			_, err = w.Write([]byte(file[1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
