package build

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/local/rayenv"
)

// Python is the interpreter of the environment that rayctl itself makes for its examples, in the tests' cache, like in test/e2e.
// With this environment in the Ray image, drivers of tests and of examples run in the same pods.
func Python(ctx context.Context, logf func(string, ...any)) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	_, self, _, _ := runtime.Caller(0)
	path := filepath.Join(filepath.Dir(self), "..", "..", "..", "examples", "grpo", "rayctl.yaml")
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("reading which packages the examples need: %w", err)
	}
	defer f.Close()
	s, err := spec.Decode(f, path)
	if err != nil {
		return "", fmt.Errorf("reading which packages the examples need: %w", err)
	}
	env, err := rayenv.Ensure(ctx, rayenv.Options{
		Version: s.Ray.Version, Packages: localspec.Of(s).Packages.Packages, CacheDir: filepath.Join(filepath.Dir(cache), "xdg", "rayctl"),
		Progress: func(text string) { logf("%s", text) },
	})
	return env.Python, err
}
