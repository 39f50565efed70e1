package rayenv

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/sharedfile"
)

// UnusedFor is how long an environment that may be wanted again is kept without being used.
const UnusedFor = 90 * 24 * time.Hour

// Collect removes interrupted installations and environments that were not used for so long. inUse lists those that must stay.
func Collect(cacheDir string, dryRun bool, unused time.Duration, inUse func(dir string) bool) ([]launcher.Collected, error) {
	dirs, err := list(cacheDir)
	if err != nil {
		return nil, err
	}
	var out []launcher.Collected
	for _, dir := range dirs {
		if inUse(dir) {
			continue
		}
		why, err := collect(dir, dryRun, unused)
		if err != nil {
			return out, fmt.Errorf("removing the environment %s: %w", dir, err)
		}
		if why != "" {
			out = append(out, launcher.Collected{What: "environment", Name: dir, Why: why})
		}
	}
	return out, nil
}

// List are the complete environments in the cache, whoever uses them.
func List(cacheDir string) ([]launcher.Environment, error) {
	dirs, err := list(cacheDir)
	if err != nil {
		return nil, err
	}
	var out []launcher.Environment
	for _, dir := range dirs {
		if info, err := os.Stat(filepath.Join(dir, marker)); err == nil {
			out = append(out, launcher.Environment{Dir: dir, Bytes: size(dir), Used: info.ModTime()})
		}
	}
	return out, nil
}

// list are the directories of environments.
func list(cacheDir string) (dirs []string, err error) {
	root := filepath.Join(cacheDir, "envs")
	entries, err := os.ReadDir(root)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for environments: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, filepath.Join(root, e.Name()))
		}
	}
	return dirs, nil
}

// size is what removing a directory frees, about: not files that other environments or uv's cache share; what cannot be read does not count.
func size(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the rest counts
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && links(info) == 1 {
			n += info.Size()
		}
		return nil
	})
	return n
}

// collect removes one environment if there is a reason, which it returns.
func collect(dir string, dryRun bool, unused time.Duration) (string, error) {
	lock, err := sharedfile.Try(dir + ".lock")
	if err != nil || lock == nil { // somebody is making it
		return "", err
	}
	defer lock.Release()
	why := ""
	info, err := os.Stat(filepath.Join(dir, marker))
	switch {
	case os.IsNotExist(err):
		why = "its installation was interrupted"
	case err != nil:
		return "", err
	case time.Since(info.ModTime()) > unused:
		why = fmt.Sprintf("not used since %s", info.ModTime().UTC().Format(time.RFC3339))
	}
	if why == "" || dryRun {
		return why, nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return why, err
	}
	lock.Remove()
	return why, nil
}
