package raytest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/local/uvtool"
)

// release describes how to install a version of Ray.
type release struct {
	// pythons with wheels, in order of preference.
	pythons []string
	// requirements beside Ray itself: pins for dependencies that its metadata leaves open and later releases broke.
	requirements []string
}

var releases = map[string]release{
	Ray260: {pythons: []string{"3.11", "3.12", "3.10", "3.13"}},
	Ray252: {pythons: []string{"3.11", "3.12", "3.10", "3.13"}},
	Ray249: {pythons: []string{"3.11", "3.12", "3.10", "3.13"}},
	Ray240: {pythons: []string{"3.11", "3.12", "3.10"}, requirements: []string{"setuptools<81"}},
	// 2.9.3 imports pkg_resources, which setuptools 81 removed.
	Ray29: {pythons: []string{"3.11", "3.10"}, requirements: []string{"setuptools<81"}},
}

const (
	// complete marks an environment whose installation was not interrupted.
	complete = ".rayctl-test-complete"
	// recipe changes when environments are made in another way.
	recipe = "2"
)

// Install is Env for programs other than tests; logf reports an installation.
func Install(ctx context.Context, version string, logf func(string, ...any)) (string, error) {
	if dir := os.Getenv("RAYCTL_TEST_RAY_" + strings.ReplaceAll(version, ".", "_")); dir != "" {
		return filepath.Join(dir, "bin", "python"), nil
	}
	rel, ok := releases[version]
	if !ok {
		return "", fmt.Errorf("raytest does not know how to install Ray %s", version)
	}
	cache, err := Cache()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "ray-"+version+"-"+recipe)
	lock, err := sharedfile.Acquire(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer lock.Release()
	python := filepath.Join(dir, "bin", "python")
	if _, err := os.Stat(filepath.Join(dir, complete)); err == nil {
		return python, nil
	}
	logf("installing Ray %s into %s (once)", version, dir)
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("remove the unfinished installation: %w", err)
	}
	if err := rel.installInto(ctx, cache, dir, version, logf); err != nil {
		return "", err
	}
	if err := collectLess(dir); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, complete), nil, 0o644); err != nil {
		return "", err
	}
	return python, os.RemoveAll(filepath.Join(cache, "ray-"+version)) // of the first recipe
}

// Cache is the directory that keeps what tests install.
func Cache() (string, error) {
	dir := os.Getenv("RAYCTL_TEST_CACHE")
	if dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find the test cache: %w", err)
		}
		dir = filepath.Join(home, ".cache", "rayctl-test")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// installInto makes the environment with uv, as rayctl does: the one on PATH, which also brings a Python where there is none, or else one that the cache keeps. pip
// installs where uv is not to be had.
func (r release) installInto(ctx context.Context, cache, dir, version string, logf func(string, ...any)) error {
	python := filepath.Join(dir, "bin", "python")
	packages := append([]string{"ray[default,serve]==" + version}, r.requirements...)
	base, noPython := r.findPython(ctx, cache)
	uv, err := getUv(ctx, base, cache, logf)
	if err != nil {
		logf("pip installs, which takes minutes: %v", err)
	}
	switch {
	case uv.Path != "":
		if err := run(ctx, uv.Env, uv.Path, "venv", "--quiet", "--seed", "--python", cmp.Or(base, r.pythons[0]), dir); err != nil {
			return err
		}
		return run(ctx, uv.Env, uv.Path, append([]string{"pip", "install", "--quiet", "--compile-bytecode", "--link-mode=copy", "--python", python}, packages...)...)
	case noPython != nil:
		return noPython
	}
	if err := run(ctx, nil, base, "-m", "venv", dir); err != nil {
		return err
	}
	return run(ctx, nil, python, append([]string{"-m", "pip", "install", "--quiet", "--disable-pip-version-check"}, packages...)...)
}

// Uv is the uv with which tests install Python packages.
func Uv(t testing.TB) uvtool.Tool {
	t.Helper()
	cache, err := Cache()
	if err != nil {
		t.Fatal(err)
	}
	tool, err := getUv(t.Context(), "python3", cache, t.Logf)
	if err != nil || tool.Path == "" {
		t.Fatalf("uv is not to be had: %v", err)
	}
	return tool
}

// getUv is the uv on PATH, or one that the cache keeps.
func getUv(ctx context.Context, python, cache string, logf func(string, ...any)) (uvtool.Tool, error) {
	return uvtool.Source{Python: python, CacheDir: filepath.Join(cache, "rayctl", "tools"), Progress: func(text string) { logf("%s", text) }}.Get(ctx)
}

// CollectLess is the content of CollectLessFile, which Python reads among its packages when it starts.
const (
	CollectLess     = "import gc; gc.set_threshold(200000, 50, 100)\n"
	CollectLessFile = "rayctl-tests.pth"
)

// collectLess lets Python's garbage collector run rarely. A Ray node is six Python processes or more that mostly import modules: without this, each import of Ray
// takes a fifth more of a processor.
func collectLess(dir string) error {
	sites, err := filepath.Glob(filepath.Join(dir, "lib", "python*", "site-packages"))
	if err != nil {
		return err
	}
	if len(sites) != 1 {
		return fmt.Errorf("%s is no virtual environment: it has %d directories of packages", dir, len(sites))
	}
	return os.WriteFile(filepath.Join(sites[0], CollectLessFile), []byte(CollectLess), 0o644)
}

// run runs a step of the installation with more variables; its output is in the error.
func run(ctx context.Context, env []string, name string, args ...string) error {
	command := exec.CommandContext(ctx, name, args...)
	command.Env = append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", command, err, out)
	}
	return nil
}
