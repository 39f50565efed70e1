package rayenv

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArrivals: only what has come since the beginning counts, the part of a package, too.
func TestArrivals(t *testing.T) {
	t.Parallel()
	cache := filepath.Join(t.TempDir(), "uv 'ü' [1]")
	write := func(name string, bytes int) {
		t.Helper()
		path := filepath.Join(cache, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, bytes), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("archive-v0/old/six.py", 7e6)
	write(".tmpold/six.py", 7e6)
	var said []string
	a := newArrivals(cache, func(text string) { said = append(said, text) })
	defer a.end()
	a.wanted = "3 packages"
	a.report()
	write(".tmp1/ray/libray.so", 1.2e6)
	a.report()
	a.report()
	if err := os.Rename(filepath.Join(cache, ".tmp1"), filepath.Join(cache, "archive-v0", "new")); err != nil {
		t.Fatal(err)
	}
	write(".tmp2/grpc.so", 3e5)
	a.report()
	want := []string{"installing 3 packages: 0 fetched, 1.2 MB unpacked", "installing 3 packages: 1 fetched, 1.5 MB unpacked"}
	if !slices.Equal(said, want) {
		t.Errorf("said %q", said)
	}
}

// TestArrivalsOfUv: the uv that rayctl brings keeps its cache and prints its lines as the count takes them.
func TestArrivalsOfUv(t *testing.T) {
	withoutUv(t)
	t.Setenv("UV_CACHE_DIR", t.TempDir())
	m := tiny(t, hostileDir(t))
	m.uv, m.cacheDir, m.requirements = true, filepath.Join(testCache(t), "tools"), []string{"iniconfig==2.0.0", "toolz==1.0.0"}
	var said []string
	m.detail = func(text string) { said = append(said, text) }
	if err := m.ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(said, "\n"); !regexp.MustCompile(`(?m)^installing 2 packages: 2 fetched, 0\.[1-9] MB unpacked$`).MatchString(all) {
		t.Errorf("said:\n%s", all)
	}
}
