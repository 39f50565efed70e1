package rayenv

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/uvtool"
	"github.com/rayctl/rayctl/test/raytest"
)

// tiny is an environment with a package that takes no time, where its making is the subject.
func tiny(t *testing.T, dir string) managed {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	py, err := ask(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return managed{dir: dir, requirements: []string{"iniconfig==2.0.0"}, python: py, progress: func(string) {}, detail: func(string) {}}
}

// The path is as bad as users' paths get.
func hostileDir(t *testing.T) string {
	return filepath.Join(t.TempDir(), "cache 'ü' $(x) [1]", "envs", "e")
}

func TestTwoAtOnceMakeItOnce(t *testing.T) {
	t.Parallel()
	dir := hostileDir(t)
	var mu sync.Mutex
	var notes []string
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			m := tiny(t, dir)
			m.progress = func(text string) { mu.Lock(); defer mu.Unlock(); notes = append(notes, text) }
			m.detail = m.progress
			if err := m.ensure(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	made := 0
	for _, n := range notes {
		if strings.HasPrefix(n, "making") {
			made++
		}
	}
	if made != 1 || !slices.Contains(notes, "installing 1 packages") {
		t.Errorf("made %d times; progress: %q", made, notes)
	}
	if out, err := exec.Command(interpreterIn(dir), "-c", "import iniconfig").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestInterruptedIsNotFinished(t *testing.T) {
	t.Parallel()
	dir := hostileDir(t)
	m := tiny(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	m.detail = func(text string) {
		if strings.HasPrefix(text, "installing") {
			cancel()
		}
	}
	err := m.ensure(ctx)
	if launcher.ExitCode(err) != runstate.CodeInterrupted {
		t.Errorf("interrupted: %v", err)
	}
	if complete(dir) {
		t.Error("an interrupted installation is taken for a finished one")
	}
	// A killed rayctl leaves half an environment.
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bin", "python"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := tiny(t, dir).ensure(t.Context()); err != nil || !complete(dir) {
		t.Errorf("made anew: %v", err)
	}
}

// TestCopiedHome: an environment that was copied with its home directory is made anew, because its programs run the original's Python.
func TestCopiedHome(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	original, there := filepath.Join(home, "old", "e"), filepath.Join(home, "new", "e")
	if err := tiny(t, original).ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", filepath.Dir(original), filepath.Dir(there)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	link := filepath.Join(home, "link")
	if err := os.Symlink(original, link); err != nil {
		t.Fatal(err)
	}
	if complete(there) || !complete(original) || !complete(link) {
		t.Errorf("complete: the copy %t, the original %t, by another name %t", complete(there), complete(original), complete(link))
	}
	if err := tiny(t, there).ensure(t.Context()); err != nil || !complete(there) {
		t.Fatalf("made anew: %v", err)
	}
	out, err := exec.Command(filepath.Join(there, "bin", "pip"), "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), there) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestPipsReasonInOneSentence(t *testing.T) {
	t.Parallel()
	m := tiny(t, hostileDir(t))
	m.requirements = []string{"rayctl-no-such-package==9.9"}
	err := m.ensure(t.Context())
	if launcher.ExitCode(err) != runstate.CodeConfig || strings.Contains(err.Error(), "\n") ||
		!strings.Contains(err.Error(), "rayctl-no-such-package==9.9") || !strings.Contains(err.Error(), "Could not find a version") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(m.dir); err == nil {
		t.Error("half an environment is left")
	}
}

// testCache outlives the test, as the product's cache does.
func testCache(t *testing.T) string {
	t.Helper()
	if cache := os.Getenv("RAYCTL_TEST_CACHE"); cache != "" {
		return filepath.Join(cache, "rayctl")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(home, ".cache", "rayctl-test", "rayctl")
}

// uv is used where it is on PATH; pip brings it here. The environment is compiled, also where Python is told to write no bytecode.
func TestUv(t *testing.T) {
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	uv := tiny(t, filepath.Join(testCache(t), "envs", "uv"))
	uv.requirements = []string{"uv==0.13.9"}
	if err := uv.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Join(uv.dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	m := tiny(t, hostileDir(t))
	m.uv = true
	var notes []string
	m.progress = func(text string) { notes = append(notes, text) }
	m.detail = m.progress
	if err := m.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg, err := os.ReadFile(filepath.Join(m.dir, "pyvenv.cfg"))
	if err != nil || !strings.Contains(string(cfg), "uv = ") || !strings.Contains(strings.Join(notes, "\n"), "installed 1 package") {
		t.Errorf("%v, progress %q, pyvenv.cfg:\n%s", err, notes, cfg)
	}
	if compiled, err := fs.Glob(os.DirFS(m.dir), "lib/python*/site-packages/iniconfig/__pycache__/*.pyc"); err != nil || len(compiled) == 0 {
		t.Errorf("nothing is compiled: %v", err)
	}
	m.requirements = []string{"rayctl-no-such-package==9.9"}
	m.dir = hostileDir(t)
	if err := m.ensure(t.Context()); err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "rayctl-no-such-package") {
		t.Errorf("uv's reason: %v", err)
	} else {
		t.Log(err)
	}
}

// withoutUv leaves Python alone on PATH.
func withoutUv(t *testing.T) {
	t.Helper()
	path, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(mustAsk(t, path).Path, filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin)
}

// TestBringsUv: where uv is not on PATH, rayctl fetches it with pip, once, and the environment has pip all the same.
func TestBringsUv(t *testing.T) {
	withoutUv(t)
	m := tiny(t, hostileDir(t))
	m.uv, m.cacheDir = true, filepath.Join(testCache(t), "tools")
	if err := m.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg, err := os.ReadFile(filepath.Join(m.dir, "pyvenv.cfg"))
	if err != nil || !strings.Contains(string(cfg), "uv = "+uvtool.Version) {
		t.Errorf("not made by the uv that rayctl brings: %v, pyvenv.cfg:\n%s", err, cfg)
	}
	if out, err := exec.Command(interpreterIn(m.dir), "-m", "pip", "--version").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if left, err := filepath.Glob(filepath.Join(m.cacheDir, "*", "download-*")); err != nil || len(left) > 0 {
		t.Errorf("downloads are left: %v, %q", err, left)
	}
}

// TestUvIsNotToBeHad: an index that has no uv, and a user who forbids it, leave the work to pip, the first with a note.
func TestUvIsNotToBeHad(t *testing.T) {
	withoutUv(t)
	dir := t.TempDir()
	m := tiny(t, hostileDir(t))
	m.uv, m.cacheDir = true, dir
	var notes []string
	m.progress = func(text string) { notes = append(notes, text) }
	t.Run("no index", func(t *testing.T) {
		t.Setenv("PIP_NO_INDEX", "1")
		t.Setenv("PIP_FIND_LINKS", dir)
		if tool := m.installer(t.Context()); tool.Path != "" || !strings.Contains(strings.Join(notes, "\n"), "pip installs, which takes longer than uv: uv "+uvtool.Version+" cannot be fetched: ") {
			t.Errorf("%+v, notes %q", tool, notes)
		}
	})
	t.Run("a setting that uv has not", func(t *testing.T) {
		t.Setenv("PIP_NO_BINARY", "numpy")
		if tool := m.installer(t.Context()); tool.Path != "" || !strings.Contains(strings.Join(notes, "\n"), "uv has no setting like pip's no-binary") {
			t.Errorf("%+v, notes %q", tool, notes)
		}
	})
	m.uv = false
	if tool := m.installer(t.Context()); tool.Path != "" {
		t.Errorf("forbidden: %+v", tool)
	}
}

// The one real installation: kept in the test cache, as the product keeps it in the user's.
func TestRealRay(t *testing.T) {
	t.Parallel()
	o := Options{CacheDir: testCache(t), Progress: func(text string) { t.Log(text) }}
	planned := Planned(o)
	env, err := Ensure(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if env.Version != defaultVersion || !strings.HasPrefix(env.Dir, o.CacheDir) || filepath.Dir(filepath.Dir(planned.Python)) == "" {
		t.Errorf("got %+v, planned %+v", env, planned)
	}
	again, err := Ensure(t.Context(), o)
	if err != nil || again != env || Planned(o).Python != env.Python {
		t.Errorf("again: %+v, %v, planned %+v", again, err, Planned(o))
	}
	out, err := exec.Command(env.Python, "-m", "ray.scripts.scripts", "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), defaultVersion) {
		t.Errorf("%v: %s", err, out)
	}
}

func TestUsersPython(t *testing.T) {
	t.Parallel()
	python := raytest.Env(t, raytest.Ray260)
	venv := filepath.Dir(filepath.Dir(python))
	odd := filepath.Join(t.TempDir(), "my env 'é'")
	if err := os.Symlink(venv, odd); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(broken, []byte("#!/bin/sh\necho 'cannot find libpython' >&2\nexit 127\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	bare := tiny(t, filepath.Join(t.TempDir(), "bare"))
	if err := bare.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		o    Options
		code int
		says string
	}{
		"interpreter":       {Options{Python: python}, 0, ""},
		"directory":         {Options{Python: odd, Version: raytest.Ray260}, 0, ""},
		"other version":     {Options{Python: odd, Version: "2.40.0"}, runstate.CodeConfig, "has Ray 2.60.0, but ray.version is 2.40.0"},
		"packages":          {Options{Python: python, Packages: []string{"jax"}}, runstate.CodeSpec, "local.packages"},
		"missing":           {Options{Python: "/no/such python"}, runstate.CodeConfig, `"/no/such python" cannot be used`},
		"missing on PATH":   {Options{Python: "python9.9"}, runstate.CodeConfig, `"python9.9" cannot be used`},
		"broken":            {Options{Python: broken}, runstate.CodeConfig, "does not work: cannot find libpython"},
		"Python but no Ray": {Options{Python: bare.dir}, runstate.CodeConfig, "has no Ray"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env, err := Ensure(t.Context(), test.o)
			switch {
			case test.code == 0 && (err != nil || env.Version != raytest.Ray260 || env.Dir != ""):
				t.Errorf("got %+v, %v", env, err)
			case test.code != 0 && (launcher.ExitCode(err) != test.code || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "\n")):
				t.Errorf("got %v (code %d)", err, launcher.ExitCode(err))
			}
		})
	}
}

// Only programs named here are on PATH.
func TestChoosePython(t *testing.T) {
	real, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	real = mustAsk(t, real).Path
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	_, err = choosePython(t.Context(), "2.60.0", true)
	if launcher.ExitCode(err) != runstate.CodeConfig || !strings.Contains(err.Error(), "Python 3.10 to 3.14 with venv, but none is on PATH") {
		t.Errorf("no Python: %v", err)
	}
	script := func(name, text string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script("python3.14", `echo "pyenv: python3.14: command not found" >&2; exit 127`) // as pyenv's shims do
	_, err = choosePython(t.Context(), "2.60.0", true)
	if launcher.ExitCode(err) != runstate.CodeConfig || !strings.Contains(err.Error(), "pyenv: python3.14: command not found") {
		t.Errorf("only a shim: %v", err)
	}
	script("python3", `exec '`+real+`' "$@"`)
	if py, err := choosePython(t.Context(), "2.60.0", true); err != nil || py.Path != real {
		t.Errorf("a shim and a Python: %+v, %v", py, err)
	}
	script("python3", `echo '{"Path": "/p", "Version": [3, 7], "Ray": "", "Dashboard": false, "Ensurepip": true}'`)
	if _, err := choosePython(t.Context(), "2.60.0", true); err == nil || !strings.Contains(err.Error(), "is Python 3.7") {
		t.Errorf("too old: %v", err)
	}
	script("python3", `echo '{"Path": "/p", "Version": [3, 11], "Ray": "", "Dashboard": false, "Ensurepip": false}'`)
	if _, err := choosePython(t.Context(), "2.60.0", true); err == nil || !strings.Contains(err.Error(), "apt install python3.11-venv") {
		t.Errorf("without ensurepip: %v", err)
	}
}

func mustAsk(t *testing.T, path string) python {
	t.Helper()
	p, err := ask(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSupportedBy(t *testing.T) {
	for ray, want := range map[string][2]int{"2.9.3": {8, 11}, "2.40.0": {9, 12}, "2.60.0": {10, 14}, "3.0.0.dev0": {10, 14}} {
		if oldest, newest := supportedBy(ray); [2]int{oldest, newest} != want {
			t.Errorf("%s: %d to %d", ray, oldest, newest)
		}
	}
}

func TestCondense(t *testing.T) {
	for line, want := range map[string]string{ // as pip 23 to 25 and uv print them
		"Downloading ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl (72.1 MB)":        "downloading ray-2.60.0 (72.1 MB)",
		"Downloading https://pypi/packages/aa/six-1.16.0-py2.py3-none-any.whl (11 kB)": "downloading six-1.16.0 (11 kB)",
		"Downloading ray-2.60.0-cp311-cp311-manylinux2014_x86_64.whl.metadata (20 kB)": "",
		"Downloading ray (75.6MiB)":                                                             "downloading ray (75.6 MiB)",
		"Installing collected packages: six, ray":                                               "installing 2 packages",
		"Resolved 41 packages in 120ms":                                                         "resolved 41 packages in 120ms",
		"Requirement already satisfied: pip in ./lib":                                           "",
		"Looking in indexes: https://user:secret@example.org/simple, https://example.org/other": "",
	} {
		if got := condense(line); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	env := func(name string, used time.Time) string {
		dir := filepath.Join(cache, "envs", name)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if !used.IsZero() {
			path := filepath.Join(dir, marker)
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, used, used); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	old := time.Now().Add(-UnusedFor - time.Hour)
	fresh, aged, busy, half := env("fresh", time.Now()), env("aged", old), env("busy", old), env("half", time.Time{})
	for _, dryRun := range []bool{true, false} {
		got, err := Collect(cache, dryRun, UnusedFor, func(dir string) bool { return dir == busy })
		if err != nil || len(got) != 2 || got[0].Name != aged || got[1].Name != half {
			t.Errorf("dry run %t: %+v, %v", dryRun, got, err)
		}
	}
	for dir, want := range map[string]bool{fresh: true, busy: true, aged: false, half: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if err := os.WriteFile(filepath.Join(fresh, "lib"), make([]byte, 5000), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(fresh, "lib"), filepath.Join(busy, "lib")); err != nil { // removing one frees nothing
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(fresh, "own"), make([]byte, 700), 0o644); err != nil {
		t.Fatal(err)
	}
	listed, err := List(cache)
	if err != nil || len(listed) != 2 || listed[1].Dir != fresh || listed[1].Bytes != 700 || listed[0].Used.Unix() != old.Unix() {
		t.Errorf("listed %+v, %v", listed, err)
	}
	got, err := Collect(cache, false, launcher.EnvironmentTaken, func(string) bool { return false })
	if err != nil || len(got) != 1 || got[0].Name != busy {
		t.Errorf("all that is unused: %+v, %v", got, err)
	}
}
