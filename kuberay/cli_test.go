package kuberay_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/kubetest/build"
	"github.com/rayctl/rayctl/test/pace"
)

// user types rayctl's commands.
type user struct {
	rayctl string
	env    []string
}

// binary builds rayctl once for all tests, in the testbed's cache, where it is not linked again if nothing has changed. Who uses the testbed has it alone.
var binary = sync.OnceValues(func() (string, error) {
	cache, err := build.CacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "under-test", "rayctl")
	c := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-o", path, "github.com/rayctl/rayctl/cmd/rayctl")
	c.Env = append(os.Environ(), "CGO_ENABLED=0") // so that it also runs in pods; as in releases, which test/release builds
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build rayctl: %w: %s", err, out)
	}
	return path, nil
})

// newUser has an environment of its own, with only the kubeconfig of this machine.
func newUser(t *testing.T, kubeconfig string) *user {
	t.Helper()
	dir := t.TempDir()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	u := &user{rayctl: path, env: []string{"KUBECONFIG=" + kubeconfig}}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "RAY") && !strings.HasPrefix(kv, "KUBECONFIG=") && !strings.HasPrefix(kv, "CI=") {
			u.env = append(u.env, kv)
		}
	}
	for _, name := range []string{"XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"} {
		u.env = append(u.env, name+"="+filepath.Join(dir, "xdg"))
	}
	return u
}

// command is a command line of theirs, in an empty directory.
func (u *user) command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(ctx, u.rayctl, args...)
	c.Env, c.Dir = u.env, t.TempDir()
	return c
}

// answer is what a command left.
type answer struct {
	out, notes string
	code       int
}

// does runs a command to its end.
func (u *user) does(t *testing.T, args ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	c := u.command(ctx, t, args...)
	var out, notes bytes.Buffer
	c.Stdout, c.Stderr = &out, &notes
	if err := c.Run(); err != nil && c.ProcessState == nil {
		t.Fatal(err)
	}
	return answer{out.String(), notes.String(), c.ProcessState.ExitCode()}
}

// succeeds is does for a command that must end with 0 and print this.
func (u *user) succeeds(t *testing.T, want string, args ...string) answer {
	t.Helper()
	a := u.does(t, args...)
	if a.code != 0 || !strings.Contains(a.out, want) {
		t.Fatalf("rayctl %q: code %d, want %q\nstdout: %s\nstderr: %s", args, a.code, want, a.out, a.notes)
	}
	return a
}

// example is the path of one.
func example(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// onlyRecords: all else is gone.
func onlyRecords(object string) bool { return strings.Contains(object, "-record") }

// knowsAuthOptions: KubeRay 1.5 and later do.
func knowsAuthOptions(t *testing.T, b bed) bool {
	t.Helper()
	samples, err := filepath.Glob(filepath.Join(b.Samples(), "ray-cluster.auth-manual.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return len(samples) > 0
}

// TestOthersAreUsed: a cluster that somebody made by kubectl, with a token of KubeRay's making, is listed, worked with, and not ended.
func TestOthersAreUsed(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	text, err := os.ReadFile(example(t, "kuberay-raycluster.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	manifest := string(text)
	if knowsAuthOptions(t, b) {
		manifest = strings.Replace(manifest, "rayVersion: 2.60.0", "rayVersion: 2.60.0\n  authOptions: {mode: token}", 1)
	}
	for _, object := range strings.Split(manifest, "\n---\n") {
		b.Create(t, b.namespace, object)
	}
	b.AwaitReady(t, b.namespace, "manifest")
	u := newUser(t, b.kubeconfig)
	kube := func(args ...string) []string { return append(args, "--launcher", "kuberay") }
	if out := u.succeeds(t, "manifest", kube("ls", "--others")...).out; !strings.Contains(out, "manifest (not rayctl's)") {
		t.Errorf("ls: %s", out)
	}
	if out := u.succeeds(t, "", kube("ls")...).out; strings.Contains(out, "manifest") {
		t.Errorf("ls: %s", out)
	}
	u.succeeds(t, "Ready", kube("status", "manifest")...)
	u.succeeds(t, "hello from the ConfigMap", append(kube("submit", "manifest", "--submission-id", "greet"), "--", "cat", "/etc/greeting/greeting.txt")...)
	u.succeeds(t, "hello from the ConfigMap", kube("logs", "manifest", "greet")...)
	u.succeeds(t, "greet", kube("jobs", "manifest")...)
	l, err := b.l.Dial(t.Context(), "manifest", launcher.Dashboard)
	if err != nil || (l.Token != "") != knowsAuthOptions(t, b) {
		t.Errorf("dashboard: %v", err)
	}
	if a := u.does(t, kube("down", "manifest")...); a.code != runstate.CodeUsage || !strings.Contains(a.notes, "was not made by rayctl") {
		t.Errorf("down: code %d: %s", a.code, a.notes)
	}
	b.AwaitReady(t, b.namespace, "manifest")
}
