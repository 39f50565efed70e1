package serve

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestServeRequirements: the runtime_env of an application is read relative to Serve's config.
func TestServeRequirements(t *testing.T) {
	dir := t.TempDir()
	apptest.WriteFiles(t, dir, map[string]string{"r.txt": "a\n", "env.yaml": "dependencies: [b]\n"})
	a, _, _ := apptest.New()
	p := a.NewPacker(nil)
	application := map[string]any{"runtime_env": map[string]any{"pip": map[string]any{"packages": "r.txt"}, "conda": "env.yaml", "uv": "r.txt"}}
	if err := packApplication(t.Context(), p, "runtime_env", dir, application); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"pip": map[string]any{"packages": []any{"a"}}, "conda": map[string]any{"dependencies": []any{"b"}}, "uv": []any{"a"}}
	if d := cmp.Diff(want, application["runtime_env"]); d != "" {
		t.Error(d)
	}
	application = map[string]any{"runtime_env": map[string]any{"pip": "nosuch.txt"}}
	if err := packApplication(t.Context(), p, "s.yaml: applications[0].runtime_env", dir, application); app.ExitCode(err) != runstate.CodeSpec || !strings.HasPrefix(err.Error(), "s.yaml: applications[0].runtime_env.pip: the requirements file "+dir) {
		t.Error(err)
	}
}

// TestModuleBesideTheConfig: an application that names no place of modules gets the config's directory if its module is there.
func TestModuleBesideTheConfig(t *testing.T) {
	dir := t.TempDir()
	apptest.WriteFiles(t, dir, map[string]string{"app.py": "", "pkg/sub.py": "", "no": ""})
	for _, c := range []struct {
		importPath string
		env        any
		want       any
	}{
		{"app:a", nil, "."},
		{"app:a", map[string]any{}, "."},
		{"app:a", map[string]any{"pip": []any{"x"}}, "."},
		{"pkg.sub:a", map[string]any{}, "."},
		{"app:a", map[string]any{"working_dir": "https://host/a.zip"}, "https://host/a.zip"},
		{"app:a", map[string]any{"py_modules": []any{"m"}}, nil},
		{"no:a", map[string]any{}, nil},
		{"../app:a", map[string]any{}, nil},
		{"", map[string]any{}, nil},
	} {
		a, _, _ := apptest.New()
		application := map[string]any{"name": "x", "import_path": c.importPath, "runtime_env": c.env}
		withModule(a, dir, application)
		env, _ := application["runtime_env"].(map[string]any)
		if env["working_dir"] != c.want {
			t.Errorf("%s, %v: %v", c.importPath, c.env, env)
		}
		withModule(a, "", application) // standard input
	}
}

// ending is a launcher whose clusters end while somebody watches them.
type ending struct{ *apptest.Launcher }

func (ending) Watch(context.Context, launcher.ID) (<-chan launcher.Status, error) {
	statuses := make(chan launcher.Status, 1)
	statuses <- launcher.Status{Phase: runstate.Gone}
	close(statuses)
	return statuses, nil
}

// TestClusterEnds: apply does not wait for the applications of a cluster that has ended.
func TestClusterEnds(t *testing.T) {
	open := func() launcher.Launcher { return ending{(&apptest.Launcher{Ray: &apptest.Ray{}}).With("dev")} }
	apptest.Run(t, verbs, open, []apptest.Line{{
		Args: "serve apply -f s.yaml dev", Files: map[string]string{"s.yaml": "applications: [{name: chat, import_path: 'm:slow'}]"},
		Code: runstate.CodeLost, Err: "rayctl: cluster dev has ended, and its applications with it: `rayctl status dev` shows why\n",
	}})
}
