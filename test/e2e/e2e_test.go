package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
)

// limit is how long a step may take on a crowded machine. Tests wait for conditions; limit only ends waits that would never end.
const limit = 6 * time.Minute

// home is the environment of this test binary: its own rayctl, state and cache, one environment with Ray.
var home struct {
	sync.Mutex
	dir    string // below it bin, state, cache
	rayctl string
	shared bool // the cluster "shared" is up
}

func TestMain(m *testing.M) {
	if program := os.Getenv(attackVariable); program != "" {
		os.Exit(attack(program))
	}
	pace.AtOnce("3") // the examples, most of which compute for long, run side by side
	dir, err := os.MkdirTemp("", "rayctl-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	home.dir, home.rayctl = dir, filepath.Join(dir, "rayctl")
	build := exec.Command("go", "build", "-o", home.rayctl, "github.com/rayctl/rayctl/cmd/rayctl")
	build.Stderr = os.Stderr
	code := 1
	if err := build.Run(); err == nil {
		code = m.Run()
		code = max(code, leftBehind())
	}
	os.RemoveAll(dir)
	os.Exit(code)
}

// leftBehind ends the shared cluster and looks for leftovers: clusters, and processes that refer to our directory.
func leftBehind() int {
	down := exec.Command(home.rayctl, "down", "--all", "--now")
	down.Env = environment("")
	if out, err := down.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "down --all: %v\n%s", err, out)
		return 1
	}
	code := 0
	environs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range environs {
		data, err := os.ReadFile(path)
		if err == nil && bytes.Contains(data, []byte("XDG_STATE_HOME="+home.dir)) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			fmt.Fprintf(os.Stderr, "left behind: %s %s\n", filepath.Base(filepath.Dir(path)), bytes.ReplaceAll(command, []byte{0}, []byte{' '}))
			code = 1
		}
	}
	return code
}

// environment is the environment of every command, without variables of other rayctls or Rays.
func environment(python string, more ...string) []string {
	var env []string
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, "RAY") && name != "CI" {
			env = append(env, kv)
		}
	}
	env = append(env, "XDG_STATE_HOME="+home.dir+"/state", "XDG_CACHE_HOME="+home.dir+"/cache", "XDG_CONFIG_HOME="+home.dir+"/config")
	if python != "" {
		env = append(env, "RAYCTL_RAY_PYTHON="+python)
	}
	return append(env, more...)
}

// user runs commands in one directory.
type user struct {
	t      *testing.T
	python string
	dir    string
	env    []string
	rayctl string // "": of this commit
}

func newUser(t *testing.T) *user {
	t.Helper()
	return &user{t: t, python: raytest.Env(t, raytest.Ray260), dir: t.TempDir()}
}

// result is the result of a command.
type result struct {
	out, err string
	code     int
}

func (u *user) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, cmp.Or(u.rayctl, home.rayctl), args...)
	c.Dir, c.Env = u.dir, environment(u.python, u.env...)
	return c
}

// do runs a command to its end.
func (u *user) do(args ...string) result {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(u.t.Context(), limit)
	defer cancel()
	c := u.command(ctx, args...)
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	err := c.Run()
	if ctx.Err() != nil {
		u.t.Fatalf("rayctl %q did not end: stdout %q, stderr %q", args, out.String(), stderr.String())
	}
	if c.ProcessState == nil {
		u.t.Fatalf("rayctl %q: %v", args, err)
	}
	code := c.ProcessState.ExitCode()
	if ws, ok := c.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		code = 128 + int(ws.Signal())
	}
	return result{out.String(), stderr.String(), code}
}

// want runs a command and expects an exit code.
func (u *user) want(code int, args ...string) result {
	u.t.Helper()
	r := u.do(args...)
	if r.code != code {
		u.t.Fatalf("rayctl %q: exit code %d, want %d\nstdout: %s\nstderr: %s", args, r.code, code, r.out, r.err)
	}
	return r
}

// write makes a file in the user's directory.
func (u *user) write(name, content string) string {
	u.t.Helper()
	path := filepath.Join(u.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		u.t.Fatal(err)
	}
	return path
}

// sharedCluster is one cluster of two nodes for all tests that do not concern a cluster's life.
func sharedCluster(t *testing.T) *user {
	t.Helper()
	u := newUser(t)
	home.Lock()
	defer home.Unlock()
	if !home.shared {
		u.want(0, "up", "shared", "--workers", "2", "--cpus-per-worker", "2", "--label", "test=e2e")
		home.shared = true
	}
	return u
}

func decode[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return v
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s lacks %q:\n%s", what, p, text)
		}
	}
}
