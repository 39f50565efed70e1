package cmd

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestServeRequirements: the runtime_env of an application is read relative to Serve's config.
func TestServeRequirements(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, dir, map[string]string{"r.txt": "a\n", "env.yaml": "dependencies: [b]\n"})
	a, _, _ := testApp()
	p := &packer{a: a, out: &launcher.Packages{}}
	app := map[string]any{"runtime_env": map[string]any{"pip": map[string]any{"packages": "r.txt"}, "conda": "env.yaml", "uv": "r.txt"}}
	if err := p.packApplication(t.Context(), "runtime_env", dir, app); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"pip": map[string]any{"packages": []any{"a"}}, "conda": map[string]any{"dependencies": []any{"b"}}, "uv": []any{"a"}}
	if d := cmp.Diff(want, app["runtime_env"]); d != "" {
		t.Error(d)
	}
	app = map[string]any{"runtime_env": map[string]any{"pip": "nosuch.txt"}}
	if err := p.packApplication(t.Context(), "s.yaml: applications[0].runtime_env", dir, app); exitCodeOf(err) != runstate.CodeSpec || !strings.HasPrefix(err.Error(), "s.yaml: applications[0].runtime_env.pip: the requirements file "+dir) {
		t.Error(err)
	}
}
