package rayenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
	"github.com/rayctl/rayctl/test/raytest"
)

// TestLocks: every Ray of the tests has a lock, in which each package has a version and hashes.
func TestLocks(t *testing.T) {
	t.Parallel()
	pinned := regexp.MustCompile(`^[a-z0-9-]+==\S+( ; .*)? \\$`)
	for _, version := range []string{defaultVersion, raytest.Ray260, raytest.Ray252, raytest.Ray249, raytest.Ray240, raytest.Ray29} {
		lock := lockOf(version)
		if !strings.Contains("\n"+lock, "\nray=="+version+" \\\n    --hash=sha256:") {
			t.Errorf("Ray %s has no lock: scripts/locks.sh UV %s", version, version)
		}
		for line := range strings.Lines(lock) {
			if line = strings.TrimSuffix(line, "\n"); !strings.HasPrefix(line, "    --hash=sha256:") && !pinned.MatchString(line) {
				t.Errorf("Ray %s: %q", version, line)
			}
		}
	}
	if lockOf("2.41.1") != "" {
		t.Error("a lock of a version without one")
	}
}

const (
	right = "iniconfig==2.0.0 --hash=sha256:b6a85871a79d2e3b22d2d1b94ac2824226a63c6b741c88f7ae975f18b6778374\n"
	wrong = "iniconfig==2.0.0 --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000\n"
	never = "iniconfig==99.0 --hash=sha256:0000000000000000000000000000000000000000000000000000000000000000\n"
)

// TestLock: the lock is installed with its hashes, and what is wanted on top of it. Another file than the lock's is refused; an index that has no such version is not.
func TestLock(t *testing.T) {
	t.Parallel()
	for _, uv := range []bool{true, false} {
		for name, c := range map[string]struct {
			lock         string
			requirements []string
			said, fails  string
			version      string
		}{
			"alone":   {right, []string{"iniconfig==2.0.0"}, "", "", "2.0.0"},
			"changed": {right, []string{"toolz==1.0.0", "iniconfig==2.1.0"}, "the packages change what rayctl's lock of Ray has: iniconfig 2.0.0 to 2.1.0", "", "2.1.0"},
			"missing": {never, []string{"iniconfig==2.0.0"}, "the package index does not have all that rayctl's lock of Ray names", "", "2.0.0"},
			"another": {wrong, []string{"iniconfig==2.0.0"}, "", "local.lock: false", ""},
		} {
			if !uv && name == "changed" { // the same code as with uv
				continue
			}
			t.Run(map[bool]string{true: "uv ", false: "pip "}[uv]+name, func(t *testing.T) {
				t.Parallel()
				m := tiny(t, hostileDir(t))
				m.uv, m.cacheDir, m.lock, m.requirements = uv, filepath.Join(testCache(t), "tools"), c.lock, c.requirements
				var notes []string
				m.progress = func(text string) { notes = append(notes, text) }
				err := m.ensure(t.Context())
				if c.fails != "" {
					if err == nil || !strings.Contains(err.Error(), c.fails) || strings.Contains(err.Error(), "\n") {
						t.Errorf("got %v", err)
					}
					return
				}
				if got := distributions(m.dir)["iniconfig"]; err != nil || got != c.version || !strings.Contains(strings.Join(notes, "\n"), c.said) {
					t.Errorf("iniconfig %q, %v, notes %q", got, err, notes)
				}
			})
		}
	}
}

// TestOffline: an environment is made from uv's cache where the index cannot be reached.
func TestOffline(t *testing.T) {
	install := func() (managed, error) {
		m := tiny(t, hostileDir(t))
		m.uv, m.cacheDir, m.lock, m.requirements = true, filepath.Join(testCache(t), "tools"), right, []string{"iniconfig==2.0.0", "toolz==1.0.0"}
		return m, m.ensure(t.Context())
	}
	if _, err := install(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:9") // nobody listens there
	}
	t.Setenv("UV_HTTP_RETRIES", "0")
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	m, err := install()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(interpreterIn(m.dir), "-c", "import toolz, iniconfig; print(iniconfig.__cached__)").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(strings.TrimSpace(string(out))); err != nil {
		t.Errorf("modules are not compiled, though Python would not keep what it compiles: %v", err)
	}
}

// TestFilesAndLines: the installer's reasons name the user's file and line.
func TestFilesAndLines(t *testing.T) {
	t.Parallel()
	requirements := []string{"ray[default]==2.60.0", "six==1.17.0  # r.txt:1", "jax=0.7  # sub/more.txt:4", "ray-x==1"}
	in := installation{managed: managed{requirements: requirements}}
	for why, want := range map[string]string{
		"Couldn't parse requirement in `/c/rayctl-requirements.txt` at position 45: no such comparison operator": "Couldn't parse requirement in sub/more.txt:4: no such comparison operator",
		"Unexpected '-', expected '-c': /c/rayctl-requirements.txt:3:1":                                          "Unexpected '-', expected '-c' (sub/more.txt:4)",
		"Invalid requirement: 'jax=0.7' (from line 3 of /c/rayctl-requirements.txt)":                             "Invalid requirement: 'jax=0.7'  (sub/more.txt:4)",
		"Because there is no version of six==1.17.0 and you require six==1.17.0":                                 "Because there is no version of six==1.17.0 and you require six==1.17.0 (r.txt:1)",
		"No space left on device": "No space left on device",
	} {
		if got := in.ofTheUser(why); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestKey: an environment is named by what the lines and their files say, not by where the lines stand or what their order is.
func TestKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pins.txt", "numpy<3")
	lines := []string{"jax  # a.txt:1", "-c " + dir + "/pins.txt  # a.txt:2", "-e " + dir}
	key := keyOf("", lines)
	if other := keyOf("", []string{lines[1], "jax  # b.txt:7", lines[2]}); other != key {
		t.Error("another order, or another file, makes another environment")
	}
	if keyOf("lock", lines) == key {
		t.Error("the lock does not count")
	}
	write("module.py", "1") // of the project that is used where it is
	if keyOf("", lines) != key {
		t.Error("code of an editable project counts")
	}
	project := keyOf("", []string{dir})
	write("module.py", "12")
	if keyOf("", []string{dir}) == project {
		t.Error("code of an installed project does not count")
	}
	write("pins.txt", "numpy<2")
	write("a b.txt", "1")
	quoted := keyOf("", []string{`-c "` + dir + `/a b.txt"`})
	write("a b.txt", "2")
	if keyOf("", []string{`-c "` + dir + `/a b.txt"`}) == quoted {
		t.Error("the content of a file with a space in its name does not count")
	}
	if keyOf("", lines) == key {
		t.Error("another constraint is the same environment")
	}
}

// TestRayOf: packages that pin Ray decide which Ray it is, and must not contradict ray.version.
func TestRayOf(t *testing.T) {
	t.Parallel()
	lock := filepath.Join(t.TempDir(), "uv.lock")
	if err := os.WriteFile(lock, []byte("[[package]]\nname = \"ray\"\nversion = \"2.49.2\"\nsource = {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"ray[tune]==2.49.2  # r.txt:3": "2.49.2", "ray == 2.49.2": "2.49.2", "ray==2.49.2 --hash=sha256:00": "2.49.2", "ray>=2.49": defaultVersion, "ray-x==1": defaultVersion,
		"-r " + lock + "  # 0123456789ab": "2.49.2",
	} {
		o := Options{Packages: []string{"six", line}}
		if got := o.version(); got != want {
			t.Errorf("%s: %s, want %s", line, got, want)
		}
	}
	_, err := Ensure(t.Context(), Options{Version: "2.60.0", Packages: []string{"ray==2.49.2  # r.txt:3"}})
	if launcher.ExitCode(err) != runstate.CodeConfig || !strings.Contains(err.Error(), "ray.version is 2.60.0, but the packages have Ray 2.49.2 (r.txt:3)") {
		t.Errorf("got %v (%d)", err, launcher.ExitCode(err))
	}
}

// TestUvLock: what a uv.lock has is installed as it is, by uv alone.
func TestUvLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a 'project' ü")
	m := tiny(t, hostileDir(t))
	m.uv, m.cacheDir = true, filepath.Join(testCache(t), "tools")
	tool := m.installer(t.Context())
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	project := "[project]\nname = \"p\"\nversion = \"1\"\nrequires-python = \">=3.10\"\ndependencies = [\"iniconfig<2.1\"]\n[dependency-groups]\ndev = [\"wcwidth\"]\n"
	if err := os.WriteFile(filepath.Join(dir, "pyproject.toml"), []byte(project), 0o600); err != nil {
		t.Fatal(err)
	}
	lock := exec.Command(tool.Path, "lock", "--directory", dir)
	lock.Env = append(os.Environ(), tool.Env...)
	if out, err := lock.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	in := spec.Requirements{File: filepath.Join(dir, "uv.lock"), Packages: []string{"toolz==1.0.0"}}
	if err := clientfiles.Environment("local.packages", &in); err != nil {
		t.Fatal(err)
	}
	m.requirements = in.Packages
	if err := m.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	have := distributions(m.dir)
	if have["iniconfig"] != "2.0.0" || have["toolz"] != "1.0.0" || have["wcwidth"] != "" || have["p"] != "" {
		t.Errorf("installed %v", have)
	}
	m.dir, m.uv = hostileDir(t), false
	if err := m.ensure(t.Context()); err == nil || !strings.Contains(err.Error(), "only uv can install "+filepath.Join(dir, "uv.lock")) {
		t.Errorf("with pip: %v", err)
	}
}
