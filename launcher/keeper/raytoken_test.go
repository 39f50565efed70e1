package keeper_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestRayToken: Ray's token is the one that the keeper has made for the head. The keeper of an earlier rayctl, whose cluster still lives, has made none.
func TestRayToken(t *testing.T) {
	dir := keeper.RunDir(t.TempDir())
	for file, content := range map[string]string{keeper.TokenFile: "api", keeper.RayTokenPrefix + "2": "ray"} {
		if err := os.WriteFile(filepath.Join(string(dir), file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for named, want := range map[string][2]string{"": {"api", keeper.TokenFile}, keeper.RayTokenPrefix + "2": {"ray", keeper.RayTokenPrefix + "2"}} {
		if token, at, err := dir.RayToken(runstate.Head{TokenFile: named}); token != want[0] || at != filepath.Join(string(dir), want[1]) || err != nil {
			t.Errorf("of a head that names %q: %q in %s, %v", named, token, at, err)
		}
	}
	if token, _, err := dir.RayToken(runstate.Head{TokenFile: keeper.RayTokenPrefix + "1"}); token != "" || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of an earlier head: %q, %v", token, err)
	}
	if token, err := dir.Token(); token != "api" || err != nil {
		t.Errorf("the API's: %q, %v", token, err)
	}
}
