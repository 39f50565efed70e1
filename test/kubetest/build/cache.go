// Package build makes, once for each version, the programs of the Kubernetes testbed: the real upstream programs from their Go modules,
// the container runtime from Debian's packages, and container images without any registry. Everything is kept outside the
// repository, under ${RAYCTL_TEST_CACHE:-$HOME/.cache/rayctl-test}/kube.
package build

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/test/once"
)

// CacheDir is the directory for everything made here.
func CacheDir() (string, error) {
	if dir := os.Getenv("RAYCTL_TEST_CACHE"); dir != "" {
		return filepath.Join(dir, "kube"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("finding the test cache: %w", err)
	}
	return filepath.Join(home, ".cache", "rayctl-test", "kube"), nil
}

// Once returns the cache's directory called name, which fill fills at first use.
func Once(ctx context.Context, name string, fill func(ctx context.Context, tmp string) error) (string, error) {
	root, err := CacheDir()
	if err != nil {
		return "", err
	}
	return once.Dir(ctx, filepath.Join(root, name), fill)
}

// copyTree copies a directory of the read-only module cache to a writable one.
func copyTree(dst, src string) error {
	return filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dst, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(to, text, 0o644)
	})
}

// run runs a command to its end; the error has the end of its output.
func run(cmd *exec.Cmd) error {
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.Join(lines[max(0, len(lines)-6):], "; "))
	}
	return nil
}
