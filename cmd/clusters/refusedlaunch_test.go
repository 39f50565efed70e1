package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/history"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// refuser is a substrate that refuses every launch and has no record, like Kubernetes with a policy or Slurm with a wrong partition.
type refuser struct {
	apptest.Launcher
	err error
}

func (r *refuser) Name() string { return "slurm" }

func (r *refuser) Launch(context.Context, *spec.ClusterSpec, launcher.Payload) (launcher.ID, error) {
	return "", r.err
}

func (r *refuser) Result(_ context.Context, id launcher.ID) (*launcher.Result, error) {
	return nil, launcher.NotFound(id)
}

func (r *refuser) Watch(_ context.Context, id launcher.ID) (<-chan launcher.Status, error) {
	return nil, launcher.NotFound(id)
}

func (r *refuser) List(context.Context, launcher.Selector) ([]launcher.Status, error) {
	return nil, nil
}

// TestRefusedIsHistory: a refused launch has no keeper and no record, so this machine keeps the receipt. A name conflict is not a launch.
func TestRefusedIsHistory(t *testing.T) {
	t.Chdir(t.TempDir())
	cache := t.TempDir()
	said := func(r *refuser, args ...string) (int, string, string) {
		a, out, stderr := apptest.New()
		a.Getenv = func(name string) string { return map[string]string{"XDG_CACHE_HOME": cache}[name] }
		a.Launchers["slurm"] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) { return r, nil }
		code := a.Execute(t.Context(), verbs, append(args, "--launcher", "slurm"))
		return code, out.String(), stderr.String()
	}
	refused := &refuser{err: launcher.Fail(runstate.CodePermission, nil, "ask for it", "the partition is not for you")}
	if code, _, stderr := said(refused, "run", "--name", "mine", "--set", "job.entrypoint=true", "--receipt", "r.json", "--junit", "r.xml"); code != runstate.CodePermission {
		t.Fatalf("code %d: %s", code, stderr)
	}
	for file, want := range map[string]string{"r.json": `"code": 77`, "r.xml": `<error type="start-failed" message="ended: the partition is not for you: ask for it (start failed, exit code 77)">`} {
		if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, %s", file, err, text)
		}
	}
	taken := &refuser{err: launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "", "the name is taken")}
	if code, _, stderr := said(taken, "run", "--name", "taken", "--set", "job.entrypoint=true"); code != runstate.CodeSpec {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if code, _, stderr := said(refused, "up", "dev"); code != runstate.CodePermission {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if code, _, stderr := said(refused, "run", "--name", "open", "--secret", "NOT_SET", "--junit", "r.xml", "--set", "job.entrypoint=true"); code != runstate.CodeConfig {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if report, err := os.ReadFile("r.xml"); err != nil || !strings.Contains(string(report), "NOT_SET") {
		t.Errorf("a secret that is not set: %s, %v", report, err)
	}
	if code, _, stderr := said(refused, "run", "--set", "job.entrypoint=true", "--set", "job.nosuch=1", "--junit", "r.xml"); code != runstate.CodeUsage {
		t.Fatalf("code %d: %s", code, stderr)
	}
	if report, err := os.ReadFile("r.xml"); err != nil || !strings.Contains(string(report), "nosuch") || !strings.Contains(string(report), `<error type="start-failed"`) {
		t.Errorf("a key that does not exist: %s, %v", report, err)
	}
	_, out, stderr := said(refused, "history", "-o", "json")
	var list []history.Past
	if err := json.Unmarshal([]byte(out), &list); err != nil || len(list) != 3 {
		t.Fatalf("%v: %s %s", err, out, stderr)
	}
	for i, name := range []string{"dev", "mine"} { // the newest first
		if p := list[i+1]; p.Name != name || p.Launcher != "slurm" || p.Exit.Code != runstate.CodePermission || !strings.Contains(p.Exit.Message, "not for you") {
			t.Errorf("%+v", p)
		}
	}
}

// TestUnusedPackages: the other launchers print one note about packages that only the local launcher installs.
func TestUnusedPackages(t *testing.T) {
	t.Chdir(t.TempDir())
	for name, want := range map[string]int{"slurm": 1, "local": 0} {
		a, _, stderr := apptest.New()
		cache := t.TempDir()
		a.Getenv = func(name string) string { return map[string]string{"XDG_CACHE_HOME": cache}[name] }
		a.Launchers[name] = func(*spec.ClusterSpec, *slog.Logger) (launcher.Launcher, error) {
			return &refuser{err: errors.New("enough")}, nil
		}
		a.Execute(t.Context(), verbs, []string{"run", "--launcher", name, "--set", "local.packages=[jax]", "--set", "job.entrypoint=true"})
		if got := strings.Count(stderr.String(), "local.packages (jax) are not installed by the slurm launcher: the nodes' Python must have them"); got != want {
			t.Errorf("%s: %d notes: %s", name, got, stderr)
		}
	}
}
