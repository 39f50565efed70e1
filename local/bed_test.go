package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/local"
	"github.com/rayctl/rayctl/local/onemachine"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/raytest"
)

func TestMain(m *testing.M) {
	conformance.Main(m, func(state string) launcher.Launcher {
		l, err := local.New(onemachine.Config{StateDir: state, CacheDir: filepath.Join(state, "cache")})
		if err != nil {
			panic(err)
		}
		return l
	})
}

// patience bounds each test of a cluster: a loaded machine needs minutes for what takes seconds alone.
const patience = 6 * time.Minute

// at makes a launcher with directories of the test's own.
func at(t *testing.T, state string) *onemachine.Launcher {
	t.Helper()
	l, err := local.New(onemachine.Config{StateDir: state, CacheDir: filepath.Join(t.TempDir(), "cache")})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// oneNode is the smallest spec, with real Ray.
func oneNode(t *testing.T, name, entrypoint string) *spec.ClusterSpec {
	t.Helper()
	return &spec.ClusterSpec{Name: name, Ray: spec.Ray{Python: raytest.Env(t, raytest.Ray260)}, Job: spec.Job{Entrypoint: entrypoint},
		Lifetime: spec.Lifetime{Max: units.Limit(30 * time.Minute)}} // for what a killed test binary leaves running
}

// processes lists the processes whose command line names the run directory: keeper, supervisors and their guards; Ray's own
// name the nodes' directories.
func processes(t *testing.T, state, name string) (out []proc.Process) {
	t.Helper()
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	places := append(nodeDirs(t, state, name), filepath.Join(state, "clusters", name))
	for _, p := range table {
		line := proc.CommandLine(p)
		if !p.Zombie && slices.ContainsFunc(places, func(dir string) bool { return strings.Contains(line, dir) }) {
			out = append(out, p)
		}
	}
	return out
}

// NodeDirs are the temporary directories that the supervisors report.
func nodeDirs(t *testing.T, state, name string) (dirs []string) {
	t.Helper()
	reports, err := filepath.Glob(filepath.Join(state, "clusters", name, "nodes", "*", "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range reports {
		var report struct{ Directory string }
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &report) == nil && report.Directory != "" {
			dirs = append(dirs, report.Directory)
		}
	}
	return dirs
}

// nothingLeft checks processes and temporary directories.
func nothingLeft(t *testing.T, state, name string, dirs ...string) {
	t.Helper()
	for _, p := range processes(t, state, name) {
		t.Errorf("left: %d %s", p.PID, proc.CommandLine(p))
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("left: %s", dir)
		}
	}
}

// wantError checks the exit code, the kind, and that the text is one line that names the thing.
func wantError(t *testing.T, err error, code int, kind error, names string) {
	t.Helper()
	if err == nil || launcher.ExitCode(err) != code || kind != nil && !errors.Is(err, kind) {
		t.Fatalf("got %v (code %d), want code %d, %v", err, launcher.ExitCode(err), code, kind)
	}
	if text := err.Error(); !strings.Contains(text, names) || strings.Contains(text, "\n") {
		t.Errorf("the sentence %q does not name %q in one line", text, names)
	}
}

func terminate(t *testing.T, l *onemachine.Launcher, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // also when the test is over
	defer cancel()
	if err := l.Terminate(ctx, launcher.ID(name), launcher.End{Cause: "down", Now: true}); err != nil {
		t.Errorf("terminate: %v", err)
	}
}

// until watches a cluster until the condition holds, or it has ended, and does what is due.
func until(t *testing.T, l *onemachine.Launcher, name string, cond func(launcher.Status) bool) (last launcher.Status) {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	statuses, err := l.Watch(ctx, launcher.ID(name))
	if err != nil {
		t.Fatal(err)
	}
	for last = range statuses {
		if last.Due != nil {
			launcher.ReconcileDue(ctx, l, launcher.ID(name), *last.Due, slog.Default())
		}
		if cond(last) {
			break
		}
	}
	return last
}
