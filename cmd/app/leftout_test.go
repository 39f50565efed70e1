package app

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestHintLeftOut: a file that the job did not find, that is here and that .gitignore left out, has its flag, and with this flag it is sent. Others have no hint.
func TestHintLeftOut(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if out, err := exec.Command("git", "init", "-q", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	writeAll(t, dir, map[string]string{
		"main.py": "a", "data/train.csv": "12345", ".gitignore": "data/\nbuild/\n*.ckpt\none.txt\nodd'name\n", "a/build/x": "1", "b/build/y": "1", "m/1.ckpt": "1", "2.ckpt": "1",
		"one.txt": "1", "odd'name": "1",
	})
	hinted := func(excludes []string, missing ...string) string {
		t.Helper()
		var said bytes.Buffer
		a := &App{Streams: terminal.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &said, Now: time.Now}, Getenv: os.Getenv}
		a.UI = terminal.NewUI(&a.Streams, a.Getenv)
		a.HintLeftOut(missing) // nothing was sent
		if _, err := a.Packages(&spec.Job{WorkingDir: dir, Excludes: excludes})(t.Context()); err != nil {
			t.Fatal(err)
		}
		said.Reset()
		a.HintLeftOut(missing)
		return strings.TrimSpace(said.String())
	}
	for missing, pattern := range map[string]string{
		"data/train.csv": "data", "./data/train.csv": "data", "data": "data", "/tmp/ray/s/runtime_resources/working_dir_files/_ray_pkg_0a1b/data/train.csv": "data",
		"b/build/y": "b/build", "m/1.ckpt": "m/1.ckpt", "one.txt": "one.txt",
	} {
		name := missing[max(0, strings.Index(missing, "data")):]
		got := hinted(nil, "/etc/none", missing)
		if want := name + " is here, but .gitignore leaves "; !strings.HasPrefix(got, want) || !strings.Contains(got, "`--excludes '!"+pattern+"'` sends it") {
			t.Errorf("%s: %q, want %s", missing, got, pattern)
		}
		if got := hinted([]string{"!" + pattern}, missing); got != "" {
			t.Errorf("%s is sent with !%s, and yet: %s", missing, pattern, got)
		}
	}
	for _, missing := range []string{"none.csv", "data/none.csv", filepath.Join(dir, "data/train.csv"), "../data/train.csv", "main.py", "odd'name", ""} {
		if got := hinted(nil, missing); got != "" {
			t.Errorf("%q: %s", missing, got)
		}
	}
}
