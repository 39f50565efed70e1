package local_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/test/raytest"
)

// patience bounds each test of a cluster: a loaded machine needs minutes for what takes seconds alone.
const patience = 4 * time.Minute

// at makes a launcher with directories of the test's own.
func at(t *testing.T, state string) *local.Launcher {
	t.Helper()
	l, err := local.New(local.Config{StateDir: state, CacheDir: filepath.Join(t.TempDir(), "cache")})
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
	return &spec.ClusterSpec{Name: name, Ray: spec.Ray{Python: raytest.Env(t, raytest.Ray260)}, Job: spec.Job{Entrypoint: entrypoint}}
}

// mark is the marker in the environment of a cluster's processes; it is read early because the record may go.
func marks(t *testing.T, state, name string) []proc.Process {
	t.Helper()
	var out []proc.Process
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(state, "clusters", name)
	for _, p := range table {
		if strings.Contains(proc.CommandLine(p), dir) && !p.Zombie {
			out = append(out, p)
		}
	}
	return out
}

func TestRun(t *testing.T) {
	// Spaces, quotes and other scripts in the paths of run directories; and a TMPDIR too long for sockets.
	state := filepath.Join(t.TempDir(), "état 'x' $(echo) 運行", strings.Repeat("long", 20))
	t.Setenv("TMPDIR", t.TempDir())
	l := at(t, state)
	s := oneNode(t, "first", `python -c 'import ray, os; ray.init(); print("hello", os.environ["TOP"], len(ray.nodes())); open(os.environ["RAYCTL_OUTPUT_DIR"] + "/x", "w").write("1")'; exit 3`)
	s.Secrets = []spec.Secret{{Name: "TOP"}}
	var out bytes.Buffer
	var phases []string
	oc, err := launcher.Run(within(t), l, s, launcher.Payload{Secrets: map[string]string{"TOP": "s3cret $x"}}, launcher.RunOptions{
		Stdout: &out, OnStatus: func(st launcher.Status) {
			if n := len(phases); n == 0 || phases[n-1] != string(st.Phase) {
				phases = append(phases, string(st.Phase))
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(phases, oc.Receipt.Exit)
	if e := oc.Receipt.Exit; e.Code != 3 || e.Origin != "driver" {
		t.Errorf("exit: %+v", e)
	}
	if !strings.Contains(out.String(), "hello s3cret $x 1\n") {
		t.Errorf("printed %q", out.String())
	}
	if left := marks(t, state, "first"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	for _, name := range []string{"token", "secrets.json"} {
		if _, err := os.Stat(filepath.Join(state, "clusters", "first", name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
}
