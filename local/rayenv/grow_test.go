package rayenv

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestGrow: an environment with one package more begins as a copy of the kept one, with what is compiled in it, and what pip does in one changes nothing in the other.
func TestGrow(t *testing.T) {
	t.Parallel()
	for name, uv := range map[string]bool{"uv": true, "pip": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			envs := filepath.Join(t.TempDir(), "cache 'ü' [1]", "envs") // pip's programs run in no directory with $( in its name
			small, larger, another := grown{t: t, uv: uv, dir: filepath.Join(envs, "small")}, grown{t: t, uv: uv, dir: filepath.Join(envs, "larger")}, grown{t: t, uv: uv, dir: filepath.Join(envs, "another")}
			small.make("")
			small.python("-m", "compileall", "-q", small.dir)
			larger.make(small.dir, "toolz==1.0.0")
			another.make(larger.dir, "wcwidth", "toolz==1.0.0")

			if out := another.python("-c", "import iniconfig, toolz, wcwidth; print(iniconfig.__file__, toolz.__file__)"); strings.Count(out, another.dir) != 2 {
				t.Errorf("imports %s", out)
			}
			if out := another.program("pip", "--version"); !strings.Contains(out, another.dir) {
				t.Errorf("pip belongs to %s", out)
			}
			compiled := filepath.Join("iniconfig", "__pycache__", "__init__.*.pyc")
			if !os.SameFile(small.stat(compiled), another.stat(compiled)) {
				t.Error("what is compiled is not shared")
			}
			before := small.content()
			larger.program("pip", "install", "-q", "--no-input", "iniconfig==2.1.0")
			larger.program("pip", "uninstall", "-q", "-y", "toolz")
			larger.program("pip", "install", "-q", "--no-input", "--force-reinstall", "--no-deps", "--ignore-installed", "iniconfig==2.0.0", "pip")
			if after := small.content(); !maps.Equal(before, after) {
				t.Error("pip in the copy changed the original")
			}
			last := grown{t: t, uv: uv, dir: filepath.Join(envs, "last")}
			last.make(small.dir, "toolz==1.0.0") // somebody installed something into "larger"
		})
	}
}

// grown is an environment whose lock has iniconfig alone.
type grown struct {
	t   *testing.T
	uv  bool
	dir string
}

// make makes it with packages beside the lock, and checks of which environment it is a copy; "": of none.
func (g grown) make(base string, packages ...string) {
	g.t.Helper()
	m := tiny(g.t, g.dir)
	m.uv, m.cacheDir, m.lock, m.requirements = g.uv, filepath.Join(testCache(g.t), "tools"), right, append(m.requirements, packages...)
	var said []string
	m.detail = func(text string) { said = append(said, text) }
	m.progress = func(text string) {
		if !strings.HasPrefix(text, "ma") {
			g.t.Errorf("noted %q", text)
		}
	}
	if err := m.ensure(g.t.Context()); err != nil {
		g.t.Fatal(err)
	}
	if copied := slices.Contains(said, "copied the environment "+base); copied != (base != "") {
		g.t.Errorf("%s is no copy of %q: %q", g.dir, base, said)
	}
}

func (g grown) python(args ...string) string { g.t.Helper(); return g.program("python", args...) }

func (g grown) program(name string, args ...string) string {
	g.t.Helper()
	out, err := exec.Command(filepath.Join(g.dir, "bin", name), args...).CombinedOutput()
	if err != nil {
		g.t.Fatalf("%s %q: %v: %s", name, args, err, out)
	}
	return string(out)
}

// stat is the only file of site-packages that matches.
func (g grown) stat(pattern string) fs.FileInfo {
	g.t.Helper()
	found, err := filepath.Glob(filepath.Join(globQuoted(g.dir), "lib", "python*", "site-packages", pattern))
	if err != nil || len(found) != 1 {
		g.t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	info, err := os.Stat(found[0])
	if err != nil {
		g.t.Fatal(err)
	}
	return info
}

// content is a checksum of each file.
func (g grown) content() map[string][sha256.Size]byte {
	g.t.Helper()
	out := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(g.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		out[path] = sha256.Sum256(text)
		return err
	})
	if err != nil || len(out) == 0 {
		g.t.Fatalf("%d files, %v", len(out), err)
	}
	return out
}

// TestKeptPython: a new environment takes the interpreter of a kept one with the same lock, and asks none on PATH.
func TestKeptPython(t *testing.T) {
	o := Options{CacheDir: filepath.Join(t.TempDir(), "cache [1]"), Packages: []string{"six"}}
	dir := filepath.Join(o.CacheDir, "envs", "kept")
	real := mustAsk(t, "python3")
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real.Path, interpreterIn(dir)); err != nil {
		t.Fatal(err)
	}
	resolved, err := filepath.EvalSymlinks(real.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", "")
	m := managed{dir: dir, python: real, requirements: []string{"ray"}, lock: lockOf(defaultVersion)}
	if err := m.note(false); err != nil { // without the lock
		t.Fatal(err)
	}
	if py, kept := o.keptPython(); kept {
		t.Errorf("of another lock: %+v", py)
	}
	if err := m.note(true); err != nil {
		t.Fatal(err)
	}
	if py, err := o.python(t.Context()); err != nil || py.Path != resolved || py.minor() != real.minor() {
		t.Errorf("%+v, %v; want %s", py, err, resolved)
	}
	if err := errors.Join(os.Remove(interpreterIn(dir)), os.Symlink("/no/such/python", interpreterIn(dir))); err != nil {
		t.Fatal(err)
	}
	if py, kept := o.keptPython(); kept {
		t.Errorf("gone: %+v", py)
	}
}

// TestGrowsFrom: what a kept environment has beside the lock must be wanted, under the same options.
func TestGrowsFrom(t *testing.T) {
	t.Parallel()
	m := managed{lock: right, python: python{Version: [2]int{3, 11}}}
	kept := func(minor string, lines ...string) note {
		return note{Python: minor, Wishes: wishes(lines), Options: wishes(options(lines))}
	}
	for name, c := range map[string]struct {
		kept   note
		wanted []string
		want   bool
	}{
		"the lock":           {kept("3.11"), []string{"--index-url https://a", "jax"}, true},
		"one package more":   {kept("3.11", "jax  # a.txt:1"), []string{"six", "jax"}, true},
		"the same options":   {kept("3.11", "jax", "--index-url https://a"), []string{"--index-url https://a", "six", "jax"}, true},
		"editable":           {kept("3.11", "jax"), []string{"-e /p", "jax"}, true},
		"another package":    {kept("3.11", "jax", "torch"), []string{"jax", "six"}, false},
		"another version":    {kept("3.11", "jax==1"), []string{"jax==2"}, false},
		"one option more":    {kept("3.11", "torch"), []string{"--extra-index-url https://a", "torch"}, false},
		"one option less":    {kept("3.11", "torch", "--pre"), []string{"torch", "six"}, false},
		"another Python":     {kept("3.12"), []string{"jax"}, false},
		"one option between": {kept("3.11", "torch", "--pre"), []string{"torch", "--pre", "-c /pins.txt"}, false},
	} {
		m.requirements = append([]string{"ray"}, c.wanted...)
		if got := (installation{managed: m}).growsFrom(c.kept); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
