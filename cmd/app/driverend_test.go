package app

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/terminal"
)

// missingHint is what HintMissing says after an output, in an empty directory.
func missingHint(t *testing.T, p Place, output string) string {
	t.Helper()
	var said bytes.Buffer
	o := NewDriverEnd(&bytes.Buffer{})
	if _, err := o.Write([]byte(output)); err != nil {
		t.Fatal(err)
	}
	streams := &terminal.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &said, Now: time.Now}
	o.HintMissing(terminal.NewUI(streams, func(string) string { return "" }), p)
	return said.String()
}

// A traceback's frames, the last the one that imports.
func traceback(module string, files ...string) string {
	text := "Traceback (most recent call last):\n"
	for _, file := range files {
		text += "  File \"" + file + "\", line 7, in f\n    x\n"
	}
	return text + "ModuleNotFoundError: No module named '" + module + "'\n"
}

// TestHintOfRaysLibraries: what a library of Ray misses is hinted as the extra that has all of it; what the user's code misses, or an extra does not bring, by itself.
func TestHintOfRaysLibraries(t *testing.T) {
	t.Chdir(t.TempDir())
	const (
		user  = "/home/ray/data/main.py"
		data  = "/env/lib/python3.11/site-packages/ray/data/read_api.py"
		block = "/env/lib/python3.11/site-packages/ray/data/_internal/arrow_block.py"
		train = "/env/lib/python3.11/site-packages/ray/train/v2/api.py"
		air   = "/usr/lib/python3/dist-packages/ray/air/util/x.py"
		arrow = "/env/lib/python3.11/site-packages/pyarrow/x.py"
	)
	for want, output := range map[string]string{
		"`--pip 'ray[data]'` installs what that part of Ray needs on every node": traceback("pandas", user, data, block),
		"Python has no module pyarrow: `--pip 'ray[data]'`":                      traceback("pyarrow.lib", user, data, "<frozen importlib._bootstrap>"),
		"`--pip 'ray[data,train]'`":                                              traceback("six", user) + traceback("pyarrow", train, block, air),
		"`--pip 'ray[tune]'`":                                                    traceback("pandas", train) + "ImportError: `pip install ray[tune]`\n",
		"`--pip pandas` installs it on every node":                               traceback("pandas", data) + traceback("pandas", data, user),
		"`--pip torch` installs it":                                              traceback("torch", user, train),
		"`--pip numpy` installs it":                                              traceback("numpy", data, arrow),
		"`--pip scikit-learn`":                                                   traceback("sklearn.x", "/home/ray/serve/a.py"),
		"Python has no module a: `--pip a` installs it":                          "ModuleNotFoundError: No module named 'a'",
	} {
		if got := missingHint(t, Place{}, output); !strings.Contains(got, want) {
			t.Errorf("got  %s\nwant %s\nafter %s", got, want, output)
		}
	}
	if got := missingHint(t, Place{}, traceback("ray", user)+"fine"); got != "" {
		t.Error(got)
	}
}

// TestHintOfPlace: it says for how long the packages are there, and how a standing cluster of this machine has them.
func TestHintOfPlace(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	output := traceback("a_b", "/x/main.py")
	check := func(p Place, want string) {
		t.Helper()
		if got := strings.TrimSpace(missingHint(t, p, output)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	check(Place{Kept: true}, "Python has no module a_b: `--pip a-b` installs it once, for all runs that use the same flag")
	check(Place{Standing: "t4"}, "Python has no module a_b: `--pip a-b` installs it for one job; `rayctl up t4 --recreate --pip a-b` makes the cluster again, with it for all jobs: add the flags that it was made with")
	if err := os.WriteFile(filepath.Join(dir, "requirements.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(Place{Standing: "t4"}, "Python has no module a_b: `-r requirements.txt` installs what that file lists for one job, `--pip a-b` that package alone; "+
		"`rayctl up t4 --recreate -r requirements.txt` makes the cluster again, with it for all jobs: add the flags that it was made with")
	if err := os.WriteFile(filepath.Join(dir, "a_b.py"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	check(Place{}, "a_b is in this directory, but the driver does not search here: `--working-dir .` sends this directory to every node")
}

// TestMissingFiles: the names of files in Python's errors, the last first.
func TestMissingFiles(t *testing.T) {
	o := NewDriverEnd(&bytes.Buffer{})
	if _, err := o.Write([]byte("FileNotFoundError: [Errno 2] No such file or directory: 'a b.csv'\nNo such file or directory: x\nNo such file or directory: '/y' -> 'z'\n")); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.MissingFiles(), "|"); got != "/y|a b.csv" {
		t.Error(got)
	}
}
