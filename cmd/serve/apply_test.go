package serve

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
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
