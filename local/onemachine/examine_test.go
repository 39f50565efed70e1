package onemachine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
)

// evidence notes what is handed over.
type evidence struct {
	texts   map[string]string
	secrets []string
	missing []string
	spec    *spec.ClusterSpec
	users   bool
}

func (e *evidence) UsersOutput() bool { return e.users }

func (e *evidence) Add(name string, text []byte, size int64) bool {
	e.texts[name] = string(text)
	return true
}

func (e *evidence) Missing(what string, err error) {
	if !errors.Is(err, os.ErrNotExist) {
		e.missing = append(e.missing, what+": "+err.Error())
	}
}

func (e *evidence) Secret(values ...string)  { e.secrets = append(e.secrets, values...) }
func (e *evidence) Spec(s *spec.ClusterSpec) { e.spec = s }

// TestExamine: a run directory is handed over without the files that hold secrets, whose values are; nothing that a program put in the place of a log is followed
// or waited for; the output of the user's programs comes only if it is wanted.
func TestExamine(t *testing.T) {
	l, err := New(Config{StateDir: t.TempDir(), CacheDir: t.TempDir()}, localSubstrate{})
	if err != nil {
		t.Fatal(err)
	}
	c := leave(t, l, "dev", l.host, time.Hour, map[string]any{keeper.StateFile: dead("dev"), keeper.OrdersFile: "orders", keeper.SecretsFile: map[string]string{"A": "value of A"}})
	node := c.run.Path(keeper.NodesDir, "head-0")
	if err := errors.Join(os.MkdirAll(node, 0o700), os.MkdirAll(c.run.Path(keeper.JobsDir), 0o700)); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		c.run.Path(keeper.TokenFile): "the token\n", c.run.Path(keeper.RayTokenPrefix + "1"): "ray's token", c.run.Path(keeper.KeeperLog): "it began", c.run.Path(keeper.DriverLog): "the user's",
		c.run.Path("package-1.zip"): "zip", filepath.Join(node, "raylet.out"): "raylet", filepath.Join(node, "job-driver-dev-1.log.from-3"): "the user's", filepath.Join(node, "worker-1.out"): "the user's",
		c.run.Path(keeper.JobsDir, "a.log"): "the user's",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(c.run.Path(keeper.TokenFile), filepath.Join(node, "gcs_server.out")), syscall.Mkfifo(filepath.Join(node, "pipe.log"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, users := range []bool{false, true} {
		found := &evidence{texts: map[string]string{}, users: users}
		l.Examine(context.Background(), "dev", found)
		names := []string{}
		for name, text := range found.texts {
			names = append(names, name)
			if strings.Contains(text, "the token") {
				t.Errorf("%s is %q", name, text)
			}
		}
		slices.Sort(names)
		want := []string{"run/keeper.log", "run/nodes/head-0/raylet.out", "run/orders.json", "run/record.json", "run/state.json"}
		if users {
			want = append(want, "run/jobs/a.log", "run/nodes/head-0/job-driver-dev-1.log.from-3", "run/nodes/head-0/worker-1.out")
			slices.Sort(want)
		}
		if !slices.Equal(names, want) {
			t.Errorf("handed over %q, want %q", names, want)
		}
		if slices.Sort(found.secrets); !slices.Equal(found.secrets, []string{"ray's token", "the token", "value of A"}) {
			t.Errorf("secrets %q", found.secrets)
		}
		if len(found.missing) != 2 || found.spec == nil || found.spec.Name != "dev" {
			t.Errorf("missing %q, file %v", found.missing, found.spec)
		}
	}
	found := &evidence{texts: map[string]string{}}
	l.Examine(context.Background(), launcher.ID("nosuch"), found)
	if len(found.missing) != 1 || len(found.texts) > 0 {
		t.Errorf("of no run: %q, %v", found.missing, found.texts)
	}
}
