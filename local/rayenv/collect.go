package rayenv

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/filelock"
)

// UnusedFor is how long an environment is kept without being used.
const UnusedFor = 90 * 24 * time.Hour

// Collect removes interrupted installations and environments unused since long. inUse says which must stay.
func Collect(cacheDir string, dryRun bool, inUse func(dir string) bool) ([]launcher.Collected, error) {
	root := filepath.Join(cacheDir, "envs")
	entries, err := os.ReadDir(root)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for old environments: %w", err)
	}
	var out []launcher.Collected
	for _, e := range entries {
		dir := filepath.Join(root, e.Name())
		if !e.IsDir() || inUse(dir) {
			continue
		}
		why, err := collect(dir, dryRun)
		if err != nil {
			return out, fmt.Errorf("removing the environment %s: %w", dir, err)
		}
		if why != "" {
			out = append(out, launcher.Collected{What: "environment", Name: dir, Why: why})
		}
	}
	return out, nil
}

// collect removes one environment if there is a reason, which it returns.
func collect(dir string, dryRun bool) (string, error) {
	lock, err := filelock.Try(dir + ".lock")
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
	case time.Since(info.ModTime()) > UnusedFor:
		why = fmt.Sprintf("not used since %s", info.ModTime().Format(time.DateOnly))
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
