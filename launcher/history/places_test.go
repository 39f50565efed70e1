package history_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/history"
	"github.com/rayctl/rayctl/launcher/spec"
)

// cluster is a spec as a cluster file makes it.
func cluster(t *testing.T, name, launcher, section string) *spec.ClusterSpec {
	t.Helper()
	s := &spec.ClusterSpec{}
	if err := json.Unmarshal([]byte(`{`+section+`"name":"`+name+`","launcher":"`+launcher+`","job":{"entrypoint":"secret"}}`), s); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPlaces(t *testing.T) {
	m, now := history.Places{Dir: t.TempDir()}, time.Now()
	here := cluster(t, "here", "local", "")
	remember := func(s *spec.ClusterSpec) {
		t.Helper()
		if err := m.Remember(s, "", now); err != nil {
			t.Fatal(err)
		}
	}
	remember(cluster(t, "a", "slurm", `"slurm":{"host":"login1"},`))
	remember(cluster(t, "k", "kuberay", `"kuberay":{"context":"prod","namespace":"team"},`))
	remember(cluster(t, "l", "local", ""))
	if of := m.Of("k", here); of == nil || of.Launcher != "kuberay" || kuberayspec.Of(of).Context != "prod" || kuberayspec.Of(of).Namespace != "team" {
		t.Errorf("k: %+v", of)
	}
	if text, err := os.ReadFile(filepath.Join(m.Dir, "k")); err != nil || strings.Contains(string(text), "secret") {
		t.Errorf("more than the place is kept: %s, %v", text, err)
	}
	if of := m.Of("k", cluster(t, "x", "kuberay", `"kuberay":{"context":"prod","namespace":"team"},`)); of != nil {
		t.Errorf("the place in force: %+v", of)
	}
	for _, name := range []string{"l", "nosuch", "../a", ""} {
		if of := m.Of(name, here); of != nil {
			t.Errorf("%q: %+v", name, of)
		}
	}
	launchers := func(at time.Time) string {
		var out []string
		for _, s := range m.Living(at, "local") {
			out = append(out, s.Launcher)
		}
		return fmt.Sprint(out)
	}
	if got := launchers(now); got != "[kuberay slurm]" {
		t.Errorf("living: %s", got)
	}
	if got := launchers(now.Add(8 * 24 * time.Hour)); got != "[]" {
		t.Errorf("after a week: %s", got)
	}
	if err := m.Ended("k"); err != nil {
		t.Fatal(err)
	}
	if got := launchers(now); got != "[slurm]" || m.Of("k", here) == nil {
		t.Errorf("after the end of k: living %s, k %+v", got, m.Of("k", here))
	}
	if err := os.WriteFile(filepath.Join(m.Dir, "a"), []byte("{half"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := launchers(now); got != "[]" || m.Of("a", here) != nil {
		t.Errorf("a damaged file: %s, %+v", got, m.Of("a", here))
	}
}

func TestPlacesAreBounded(t *testing.T) {
	m := history.Places{Dir: t.TempDir()}
	for i := range 205 {
		if err := m.Remember(cluster(t, fmt.Sprint("c", i), "local", ""), "", time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if files, err := os.ReadDir(m.Dir); err != nil || len(files) != 200 {
		t.Errorf("%d files, %v", len(files), err)
	}
	if m.Of("c204", cluster(t, "x", "slurm", "")) == nil {
		t.Error("the last launch is not remembered")
	}
}

// TestFromElsewhere: a cluster is known to be of another cluster file, if it is; one without a file belongs to its directory.
func TestFromElsewhere(t *testing.T) {
	m, here, there := history.Places{Dir: t.TempDir()}, t.TempDir(), t.TempDir()
	file := filepath.Join(here, "rayctl.yaml")
	for _, launch := range []struct{ name, dir, file string }{
		{"file", here, "rayctl.yaml"}, {"again", there, file}, {"none", here, ""}, {"other", here, "other.yaml"}, {"far", there, "rayctl.yaml"}, {"nowhere", there, ""},
	} {
		t.Chdir(launch.dir)
		if err := m.Remember(cluster(t, launch.name, "local", ""), launch.file, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(t.TempDir())
	for name, want := range map[string]bool{"file": false, "again": false, "none": false, "unknown": false, "other": true, "far": true, "nowhere": true} {
		if got := m.FromElsewhere(name, file); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
