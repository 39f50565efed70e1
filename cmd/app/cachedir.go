package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/trust"
)

// CacheDir is rayctl's directory for data that may be lost without harm. It is made if it does not exist.
func (a *App) CacheDir(parts ...string) (string, error) { return a.cacheDir(trust.MakeDir, parts) }

// ReadCacheDir is CacheDir for readers: the directory may not exist.
func (a *App) ReadCacheDir(parts ...string) (string, error) {
	return a.cacheDir(trust.CheckDir, parts)
}

func (a *App) cacheDir(use func(path string) error, parts []string) (string, error) {
	base := a.Getenv("XDG_CACHE_HOME")
	if base == "" {
		base = filepath.Join(a.Getenv("HOME"), ".cache")
	}
	dir := filepath.Join(append([]string{base, "rayctl"}, parts...)...)
	if err := use(dir); err != nil {
		return "", launcher.Fail(runstate.CodePermission, err, "set XDG_CACHE_HOME to a directory that only you may write to", "the cache directory %s cannot be used: %v", dir, err)
	}
	return dir, nil
}

// CacheName is a file's name for what the cache has of a cluster as it is reached by these words. Clusters of one name at two sites, or one after the other,
// have different files.
func (c *Cluster) CacheName(reached ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(reached, "\x00")))
	return string(c.ID) + "." + hex.EncodeToString(sum[:8])
}

// TokenFile writes the cluster's token to a file that only the user can read.
func (a *App) TokenFile(c *Cluster, token string) (string, error) {
	dir, err := a.CacheDir("tokens", c.Launcher.Name())
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, c.CacheName(token))
	if old, err := os.ReadFile(path); err == nil && string(old) == token {
		return path, nil
	}
	return path, sharedfile.Write(path, []byte(token), 0o600)
}

// ForgetToken removes the files that `env` made for a cluster that has ended.
func (a *App) ForgetToken(c *Cluster) error {
	dir, err := a.ReadCacheDir("tokens", c.Launcher.Name())
	if err != nil {
		return err
	}
	files, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return launcher.Fail(runstate.CodeConfig, err, "remove it yourself", "the token file of %s cannot be removed: %v", c.ID, err)
	}
	for _, f := range files {
		if clusterOf(f) != string(c.ID) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return launcher.Fail(runstate.CodeConfig, err, "remove it yourself", "the token file of %s cannot be removed: %v", c.ID, err)
		}
	}
	return nil
}

// clusterOf is the name of the cluster whose file this is, by CacheName.
func clusterOf(f fs.DirEntry) string {
	name := f.Name()
	return name[:max(strings.LastIndex(name, "."), 0)]
}

// CollectTokens removes the token files that `env` made for clusters that have ended.
func (a *App) CollectTokens(ctx context.Context, l launcher.Launcher, dryRun bool) ([]launcher.Collected, error) {
	dir, err := a.ReadCacheDir("tokens", l.Name())
	if err != nil {
		return nil, err
	}
	files, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(files) == 0:
		return nil, nil
	case err != nil:
		return nil, err
	}
	living, err := l.List(ctx, launcher.Selector{})
	if err != nil {
		return nil, err
	}
	var out []launcher.Collected
	for _, f := range files {
		if slices.ContainsFunc(living, func(s launcher.Status) bool { return s.Name == clusterOf(f) }) {
			continue
		}
		if !dryRun {
			if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
				return out, err
			}
		}
		out = append(out, launcher.Collected{What: "token", Name: clusterOf(f), Why: "its cluster has ended"})
	}
	return out, nil
}
