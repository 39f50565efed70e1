// Package build makes, once for each version, the programs of the Kubernetes testbed: the real upstream programs from their Go modules,
// the container runtime from Debian's packages, and container images without any registry. Everything is kept outside the
// repository, under ${RAYCTL_TEST_CACHE:-$HOME/.cache/rayctl-test}/kube.
package build

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/launcher/filelock"
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

// Once returns the cache's directory called name, which fill fills at first use. Processes share the directory: one fills it
// under a lock, and it gets its name only when complete.
func Once(ctx context.Context, name string, fill func(ctx context.Context, tmp string) error) (string, error) {
	root, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, name)
	if whole(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("making the test cache: %w", err)
	}
	lock, err := filelock.Acquire(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if whole(dir) {
		return dir, nil
	}
	tmp := dir + ".part"
	if err := removeAll(tmp); err != nil {
		return "", fmt.Errorf("removing what an interrupted build left: %w", err)
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", fmt.Errorf("making the test cache: %w", err)
	}
	if err := fill(ctx, tmp); err != nil {
		return "", fmt.Errorf("making %s: %w", name, errors.Join(err, removeAll(tmp)))
	}
	if err := os.Rename(tmp, dir); err != nil {
		return "", fmt.Errorf("making %s: %w", name, err)
	}
	return dir, nil
}

func whole(dir string) bool {
	_, err := os.Stat(dir)
	return err == nil
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

// removeAll also removes directories that are not writable.
func removeAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
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
