// Package once makes directories of the tests' cache at first use.
package once

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/rayctl/rayctl/launcher/sharedfile"
)

// Dir returns dir, which fill fills at first use. Processes share the directory: one fills it under a lock, and it gets its name only when complete.
func Dir(ctx context.Context, dir string, fill func(ctx context.Context, tmp string) error) (string, error) {
	if whole(dir) {
		return dir, nil
	}
	name := filepath.Base(dir)
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", fmt.Errorf("making the test cache: %w", err)
	}
	lock, err := sharedfile.Acquire(ctx, dir+".lock")
	if err != nil {
		return "", err
	}
	defer lock.Release()
	if whole(dir) {
		return dir, nil
	}
	tmp := dir + ".part"
	if err := RemoveAll(tmp); err != nil {
		return "", fmt.Errorf("removing what an interrupted build left: %w", err)
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return "", fmt.Errorf("making the test cache: %w", err)
	}
	if err := fill(ctx, tmp); err != nil {
		return "", fmt.Errorf("making %s: %w", name, errors.Join(err, RemoveAll(tmp)))
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

// RemoveAll also removes directories that are not writable.
func RemoveAll(dir string) error {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = os.Chmod(path, 0o755)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
