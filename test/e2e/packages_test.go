package e2e

import (
	"archive/zip"
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestKeptPackages: the packages of a run on this machine are in the environment that rayctl makes, for the driver and for tasks, and the second run has it already. A
// driver that misses a module is told of that.
func TestKeptPackages(t *testing.T) {
	u := exampleUser(t)
	u.write("requirements.txt", "-r more.txt\ntoolz==1.0.0\n")
	u.write("more.txt", "iniconfig==2.0.0 \\\n    --hash=sha256:b6a85871a79d2e3b22d2d1b94ac2824226a63c6b741c88f7ae975f18b6778374\n")
	u.write("main.py", "import iniconfig, ray\nray.init()\n@ray.remote\ndef place():\n    import toolz\n    return toolz.__file__\n"+
		"for path in (iniconfig.__file__, ray.get(place.remote())):\n    print('/rayctl/envs/ray-' in path or path)\n")
	contains(t, "the hint", u.want(1, "run", "--", "python", "-c", "import toolz").err, "`-r requirements.txt` installs what that file lists once, for all runs that use the same flag")
	for range 2 {
		r := u.want(0, "run", "-r", "requirements.txt", "--", "python", "main.py")
		if !strings.HasSuffix(r.out, "\nTrue\nTrue\n") { // Ray has told where it connects
			t.Errorf("places %q", r.out)
		}
	}
	second := u.want(0, "run", "-r", "requirements.txt", "--dry-run", "--", "python", "main.py").err
	if strings.Contains(second, "Python environment") {
		t.Errorf("it would be made again: %s", second)
	}
}

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

// suggested is the flag in the note about a module that the driver does not find.
var suggested = regexp.MustCompile("Python has no module iniconfig: `(-[^`]+)`")

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
