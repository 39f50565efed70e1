// Package rayenv provides the Python environment whose Ray the local launcher runs: the user's own, or one that rayctl
// makes once with uv or pip and keeps in the cache, shared by all rayctls of the user.
package rayenv

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
	"github.com/rayctl/rayctl/launcher/trust"
)

// defaultVersion is the newest Ray that rayctl was tested with.
const defaultVersion = "2.60.0"

// Options are those of the wanted environment.
type Options struct {
	// Python is the user's interpreter or the directory of a virtual environment; empty: rayctl makes one.
	Python string
	// Version of Ray: asserted of the user's Python, installed otherwise. Empty: what Python has, or defaultVersion.
	Version string
	// Packages are installed beside Ray: lines of requirements as clientfiles.Environment makes them. An error with Python. Where Version is empty, the Ray that they
	// pin counts.
	Packages []string
	// NoLock installs the newest packages that Ray allows, not those of rayctl's lock.
	NoLock bool
	// NoUv has pip install, not uv.
	NoUv bool
	// CacheDir holds the environments that rayctl makes, in envs/, and the uv that it brings.
	CacheDir string
	// Progress takes one line for each step of an installation; nil: none.
	Progress func(text string)
	// Detail takes what the installer does, one line for each package; nil: none.
	Detail func(text string)
}

// Env is an environment that has Ray.
type Env struct {
	// Python is the absolute path of its interpreter.
	Python string
	// Version of Ray in it.
	Version string
	// Dir is its directory if rayctl made it, else empty.
	Dir string
}

func newEnv(python, version, dir string) Env {
	return Env{Python: python, Version: version, Dir: dir}
}

// Ensure returns the environment, and makes it first if it must. Two callers at once make it once. Errors are
// *launcher.ExitError values.
func Ensure(ctx context.Context, o Options) (Env, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Detail == nil {
		o.Detail = func(string) {}
	}
	if o.Python != "" {
		return existing(ctx, o)
	}
	if err := o.sameRay(); err != nil {
		return Env{}, err
	}
	o.Version = o.version()
	if dir := o.made(); dir != "" {
		return newEnv(interpreterIn(dir), o.Version, dir), nil
	}
	py, err := o.python(ctx)
	if err != nil {
		return Env{}, err
	}
	m := managed{
		dir: o.dir(py.minor()), requirements: o.requirements(), lock: o.lock(), python: py, uv: !o.NoUv, cacheDir: o.CacheDir, progress: o.Progress, detail: o.Detail,
	}
	if err := m.ensure(ctx); err != nil {
		return Env{}, err
	}
	return newEnv(interpreterIn(m.dir), o.Version, m.dir), nil
}

// python is the interpreter for a new environment: that of a kept one from which it may grow, else one from PATH.
func (o Options) python(ctx context.Context) (python, error) {
	if py, kept := o.keptPython(); kept {
		return py, nil
	}
	return choosePython(ctx, o.Version, !o.NoUv)
}

// Exists reports whether Ensure would have to make nothing.
func Exists(o Options) bool {
	o.Version = o.version()
	return o.Python != "" || o.made() != ""
}

// Wanted are the packages of the environment that Ensure would make, for a message.
func Wanted(o Options) string {
	o.Version = o.version()
	return shown(o.requirements())
}

// Planned is what Ensure would return, without installing or starting anything. Where that depends on which Python would be
// chosen, the path has X.Y.
func Planned(o Options) Env {
	if o.Python != "" {
		python := o.Python
		if info, err := os.Stat(python); err == nil && info.IsDir() {
			python = filepath.Join(python, "bin", "python")
		}
		return newEnv(python, o.Version, "")
	}
	o.Version = o.version()
	dir := o.made()
	if dir == "" {
		dir = o.dir("X.Y")
	}
	return newEnv(interpreterIn(dir), o.Version, dir)
}

// made finds a complete environment of any Python, without asking an interpreter: a shim on PATH may take long to answer.
func (o Options) made() string {
	prefix := o.dir("")
	entries, err := os.ReadDir(filepath.Dir(prefix))
	if err != nil {
		return "" // nothing was ever installed
	}
	for _, e := range slices.Backward(entries) {
		dir := filepath.Join(filepath.Dir(prefix), e.Name())
		if strings.HasPrefix(dir, prefix) && e.IsDir() && complete(dir) {
			return dir
		}
	}
	return ""
}

func (o Options) version() string {
	pinned, _ := rayOf(o.Packages)
	return cmp.Or(o.Version, pinned, defaultVersion)
}

// sameRay refuses packages that pin another Ray than the wanted one.
func (o Options) sameRay() error {
	pinned, line := rayOf(o.Packages)
	if o.Version == "" || pinned == "" || pinned == o.Version {
		return nil
	}
	where := ""
	if origin := clientfiles.ParseLine(line).Origin; origin != "" {
		where = " (" + origin + ")"
	}
	return launcher.Fail(runstate.CodeConfig, nil, "leave ray.version out, or make them equal", "ray.version is %s, but the packages have Ray %s%s", o.Version, pinned, where)
}

// requirements are what is installed on top of the lock. Ray's job API needs the dashboard, which is in the extra "default".
func (o Options) requirements() []string {
	return append([]string{"ray[default]==" + o.Version}, o.Packages...)
}

// dir is named by what is in it, so that another wish makes another environment.
func (o Options) dir(minor string) string {
	return filepath.Join(o.CacheDir, "envs", fmt.Sprintf("ray-%s-%s-py%s", o.Version, keyOf(o.lock(), o.Packages), minor))
}

// managed is an environment that rayctl makes.
type managed struct {
	dir          string
	requirements []string
	lock         string // requirements with hashes that are installed first; "": none
	python       python
	uv           bool   // uv may install
	cacheDir     string // where the uv is that rayctl brings; "": it brings none
	progress     func(string)
	detail       func(string)
}

// marker is written last: an environment without it was interrupted and is made again. A finished environment cannot be
// renamed into place instead, because virtual environments hold their own path.
const marker = ".rayctl-complete"

// note is what the marker holds.
type note struct {
	Requirements []string `json:"requirements"`
	Python       string   `json:"python"`
	// Dir is where it was installed: programs of a copy begin with this path, so that they would run the original's Python.
	Dir string `json:"dir"`
	// The rest says whether another environment may begin as a copy of it: the checksum of the lock that it began with ("": none), those of the lines beside Ray and of
	// the options among them, and what was installed, so that an environment into which somebody installed more is no such beginning.
	Lock          string            `json:"lock,omitempty"`
	Wishes        []string          `json:"wishes,omitempty"`
	Options       []string          `json:"options,omitempty"`
	Distributions map[string]string `json:"distributions,omitempty"`
}

func interpreterIn(dir string) string { return filepath.Join(dir, "bin", "python") }

// ensure makes the environment unless it is complete.
func (m managed) ensure(ctx context.Context) error {
	if complete(m.dir) {
		return nil
	}
	lock, err := m.acquire(ctx)
	if err != nil {
		return err
	}
	defer lock.Release()
	if complete(m.dir) { // by whoever held the lock before
		return nil
	}
	if err := m.make(ctx, lock.File()); err != nil {
		os.RemoveAll(m.dir)
		return err
	}
	return nil
}

func (m managed) acquire(ctx context.Context) (*sharedfile.Lock, error) {
	if err := trust.MakeDir(filepath.Dir(m.dir)); err != nil {
		return nil, writeFailed(m.dir, err)
	}
	lock, err := sharedfile.Try(m.dir + ".lock")
	if err == nil && lock == nil {
		m.progress("another rayctl installs " + m.requirements[0] + "; waiting for it")
		lock, err = sharedfile.Acquire(ctx, m.dir+".lock")
	}
	if ctx.Err() != nil {
		return nil, launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "interrupted while installing %s", m.requirements[0])
	}
	if err != nil {
		return nil, writeFailed(m.dir, err)
	}
	return lock, nil
}

// complete reports whether an installation was finished here and still works, and notes its use for Collect.
func complete(dir string) bool {
	if _, err := os.Stat(interpreterIn(dir)); err != nil || copied(dir) { // interrupted, or the Python it was made from is gone
		return false
	}
	now := time.Now()
	return os.Chtimes(filepath.Join(dir, marker), now, now) == nil
}

func noteOf(dir string) (n note, err error) {
	text, err := os.ReadFile(filepath.Join(dir, marker))
	if err != nil {
		return n, err
	}
	return n, json.Unmarshal(text, &n)
}

// copied reports whether an environment was installed at another path, as in a home directory that was copied or moved.
func copied(dir string) bool {
	n, err := noteOf(dir)
	if err != nil || n.Dir == "" {
		return false
	}
	was, err := os.Stat(n.Dir)
	if err != nil {
		return true
	}
	is, err := os.Stat(dir)
	return err != nil || !os.SameFile(was, is)
}

func writeFailed(path string, err error) error {
	return launcher.Fail(runstate.CodeConfig, err, "free space there, or set XDG_CACHE_HOME to a directory you may write to",
		"cannot make the Ray environment in %s: %v", filepath.Dir(path), err)
}

// Check returns the environment that Ensure would use, and installs nothing.
func Check(ctx context.Context, o Options) (string, error) {
	if o.Python != "" {
		env, err := existing(ctx, o)
		return fmt.Sprintf("Ray %s in %s", env.Version, env.Python), err
	}
	if err := o.sameRay(); err != nil {
		return "", err
	}
	o.Version = o.version()
	if dir := o.made(); dir != "" {
		return fmt.Sprintf("Ray %s in %s", o.Version, dir), nil
	}
	py, err := o.python(ctx)
	return fmt.Sprintf("Ray %s will be installed once, for Python %s", o.Version, py.minor()), err
}
