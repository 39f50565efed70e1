package pack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// rules decide what is left out. Each kind of file has its own chain, in which a deeper or later pattern overrides, as in git. A file that any
// chain excludes is left out, as in Ray.
type rules struct {
	excludes, gitignore, rayignore []pattern
	noGitignore                    bool
}

// newRules returns the rules at the top of a directory that is packed, without the files in it.
func newRules(root string, opts Options) (rules, error) {
	r := rules{noGitignore: opts.NoGitignore}
	for _, line := range append(append([]string{}, DefaultExcludes...), opts.Excludes...) {
		r.excludes = append(r.excludes, parsePatterns([]byte(line), 0)...)
	}
	if r.noGitignore {
		return r, nil
	}
	var err error
	r.gitignore, err = extend(nil, gitExclude(root), 0)
	return r, err
}

// in returns the rules inside a directory, given those of its parent. relative is its path, empty for the top.
func (r rules) in(dir, relative string, entries []fs.DirEntry) (rules, error) {
	base := len(relative)
	if base > 0 {
		base++ // the slash
	}
	for _, entry := range entries {
		var err error
		switch name := entry.Name(); {
		case name == ".gitignore" && !r.noGitignore && entry.Type().IsRegular(): // git does not follow links
			r.gitignore, err = extend(r.gitignore, filepath.Join(dir, name), base)
		case name == ".rayignore":
			r.rayignore, err = extend(r.rayignore, filepath.Join(dir, name), base)
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// skip reports whether a file or directory is left out. Nothing below such a directory is checked: no pattern can include it again.
func (r rules) skip(path string, dir bool) bool {
	return excluded(r.excludes, path, dir) || excluded(r.gitignore, path, dir) || excluded(r.rayignore, path, dir)
}

// excluded returns the result of the last matching pattern.
func excluded(chain []pattern, path string, dir bool) bool {
	for i := len(chain) - 1; i >= 0; i-- {
		if chain[i].matches(path, dir) {
			return !chain[i].negated
		}
	}
	return false
}

// extend adds the patterns of a file, if it exists.
func extend(chain []pattern, path string, base int) ([]pattern, error) {
	content, err := readRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return chain, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the patterns: %w", err)
	}
	return append(chain[:len(chain):len(chain)], parsePatterns(content, base)...), nil // siblings append to the same parent
}

// gitExclude is the path of this clone's own file of patterns, if the directory is the top of a repository. In a linked working tree
// ("git worktree add") .git is a file with the name of a directory, which has a file with the name of the clone's.
func gitExclude(root string) string {
	dir := filepath.Join(root, ".git")
	if content, err := readRegular(dir); err == nil {
		dir = from(root, strings.TrimPrefix(string(content), "gitdir:"))
		if common, err := readRegular(filepath.Join(dir, "commondir")); err == nil {
			dir = from(dir, string(common))
		}
	}
	return filepath.Join(dir, "info", "exclude")
}

// from resolves a path that is relative to a directory.
func from(dir, path string) string {
	path = strings.TrimSpace(path)
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// readRegular reads a file. Anything else of that name (a directory, a pipe without a writer) counts as missing.
func readRegular(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if errors.Is(err, syscall.ENOTDIR) || err == nil && !info.Mode().IsRegular() {
		return nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return os.ReadFile(path)
}
