package keeper_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// TestRayToken: Ray's token is the one that the keeper has made for the head. The keeper of an earlier rayctl, whose cluster still lives, has made none.
func TestRayToken(t *testing.T) {
	dir := keeper.RunDir(t.TempDir())
	for _, c := range []struct{ file, content, token string }{{keeper.TokenFile, "api", "api"}, {keeper.RayTokenFile, "ray", "ray"}} {
		path := filepath.Join(string(dir), c.file)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if token, at, err := dir.RayToken(); token != c.token || at != path || err != nil {
			t.Errorf("after %s was written: %q in %s, %v", c.file, token, at, err)
		}
		if token, err := dir.Token(); token != "api" || err != nil {
			t.Errorf("the API's: %q, %v", token, err)
		}
	}
}
