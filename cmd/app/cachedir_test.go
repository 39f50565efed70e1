package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
)

// TestTokenFiles: two clusters of one name at two sites have a token file each. It stays until a cluster of this name is ended, or until gc finds no such cluster.
func TestTokenFiles(t *testing.T) {
	a, _, _ := apptest.New()
	cache := t.TempDir()
	a.Getenv = func(name string) string { return map[string]string{"XDG_CACHE_HOME": cache}[name] }
	l := new(apptest.Launcher).With("dev")
	dev := &app.Cluster{Launcher: l, ID: "dev"}
	gone := &app.Cluster{Launcher: l, ID: "gone"}
	write := func(c *app.Cluster, token string) string {
		t.Helper()
		path, err := a.TokenFile(c, token)
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	here, there, again := write(dev, "here"), write(dev, "there"), write(dev, "here")
	if here == there || here != again {
		t.Errorf("the files are %s, %s and %s", here, there, again)
	}
	for path, want := range map[string]string{here: "here", there: "there"} {
		info, err := os.Stat(path)
		text, _ := os.ReadFile(path)
		if err != nil || string(text) != want || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has %q, %v, %v", path, text, info, err)
		}
	}
	if strings.Contains(here, "dev.here") {
		t.Errorf("the token is in the name: %s", here)
	}
	write(gone, "here")
	removed, err := a.CollectTokens(t.Context(), l, false)
	if err != nil || len(removed) != 1 || removed[0].Name != "gone" {
		t.Errorf("gc removed %+v, %v", removed, err)
	}
	write(gone, "here")
	if err := a.ForgetToken(dev); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(here), "*")); len(left) != 1 || !strings.HasPrefix(filepath.Base(left[0]), "gone.") {
		t.Errorf("left: %q", left)
	}
	if one, other := dev.CacheName("http://10.0.0.1:8265", "x"), dev.CacheName("http://10.0.0.2:8265", "x"); one == other {
		t.Errorf("two ways to a dashboard have one name: %s", one)
	}
}

// TestNoCache: commands that only read or remove work where the cache directory cannot be made.
func TestNoCache(t *testing.T) {
	a, _, _ := apptest.New()
	a.Getenv = func(name string) string { return map[string]string{"XDG_CACHE_HOME": "/proc/none"}[name] }
	l := new(apptest.Launcher).With("dev")
	if removed, err := a.CollectTokens(t.Context(), l, false); err != nil || len(removed) > 0 {
		t.Errorf("gc: %+v, %v", removed, err)
	}
	if err := a.ForgetToken(&app.Cluster{Launcher: l, ID: "dev"}); err != nil {
		t.Errorf("down: %v", err)
	}
}
