package pack

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// gitTree is a directory whose files git lists.
type gitTree struct {
	w              *walker
	listing        *gitListing
	path, relative string
	outer          rules
	inside         map[string]*rules // of the directories, by their path below this one; nil: the directory is left out
}

// listing adds what git lists of a directory, less what the excludes and .rayignore files leave out, and what they take back.
func (w *walker) listing(path, relative string, r rules, listing *gitListing) error {
	l := &gitTree{w: w, listing: listing, path: path, relative: relative, outer: r, inside: map[string]*rules{}}
	for _, name := range listing.files {
		if err := l.add(name, false); err != nil {
			return err
		}
	}
	for _, name := range append(listing.ignored, ".git/") { // which git does not list, and "!.git" takes back
		if err := l.add(name, true); err != nil {
			return err
		}
	}
	return nil
}

// add adds one of git's paths. What is not on disk was deleted, or is outside of a sparse checkout.
func (l *gitTree) add(name string, gitignored bool) error {
	if err := l.w.ctx.Err(); err != nil {
		return err
	}
	name, slash := strings.CutSuffix(name, "/")
	parent := parentOf(name)
	r, err := l.rules(parent)
	if r == nil || err != nil {
		return err
	}
	path, full := filepath.Join(l.path, name), below(l.relative, name)
	inner, ok := l.w.admits(path, full, slash, *r, gitignored && !r.noGitignore)
	if !ok {
		return nil
	}
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return nil
	case err != nil:
		return readable(err)
	case info.Mode().IsRegular():
		return l.w.found(path, full, info, inner)
	}
	leave, err := l.enter(parent)
	if err != nil {
		return err
	}
	defer leave()
	if !info.IsDir() {
		return l.w.found(path, full, info, inner)
	}
	if empty, err := isEmpty(path); err == nil && empty && !slash {
		l.w.note("the submodule %s is empty: `git submodule update --init` fetches its files", full)
	}
	return l.w.subdirectory(path, full, info, inner, true) // a submodule, another repository, or a directory in the place of a tracked file
}

// enter tells the walker which directories lead to one of this listing.
func (l *gitTree) enter(dir string) (leave func(), err error) {
	before := len(l.w.within)
	leave = func() { l.w.within = l.w.within[:before] }
	for ; dir != ""; dir = parentOf(dir) {
		info, err := os.Stat(filepath.Join(l.path, dir))
		if err != nil {
			leave()
			return nil, readable(err)
		}
		l.w.within = append(l.w.within, identify(info))
	}
	return leave, nil
}

// rules returns the rules inside a directory, or nil if it is left out.
func (l *gitTree) rules(dir string) (*rules, error) {
	if r, ok := l.inside[dir]; ok {
		return r, nil
	}
	r := &l.outer
	if dir != "" {
		var err error
		if r, err = l.rules(parentOf(dir)); err != nil {
			return nil, err
		}
		if r, err = l.admitted(dir, r); err != nil {
			return nil, err
		}
	}
	if r != nil {
		inner, err := r.withRayignore(filepath.Join(l.path, dir), below(l.relative, dir))
		if err != nil {
			return nil, readable(err)
		}
		r = &inner
	}
	l.inside[dir] = r
	return r, nil
}

// admitted returns what holds in a directory, given the rules in its parent.
func (l *gitTree) admitted(dir string, outer *rules) (*rules, error) {
	if outer == nil {
		return nil, nil
	}
	full := below(l.relative, dir)
	inner, ok := l.w.admits(filepath.Join(l.path, dir), full, true, *outer, false)
	if !ok {
		return nil, nil
	}
	if outer.ours(full, true, false) == takenBack {
		ignored, err := l.listing.ignoresDir(l.w.ctx, dir)
		if err != nil {
			return nil, err
		}
		inner.noGitignore = inner.noGitignore || ignored
		outer.ours(full, true, ignored) // which remembers that the pattern has an effect
	}
	return &inner, nil
}

// below joins paths with slashes, of which either may be empty.
func below(dir, name string) string { return strings.Trim(dir+"/"+name, "/") }

// parentOf is the path of the directory, empty for the top.
func parentOf(name string) string { return name[:max(0, strings.LastIndexByte(name, '/'))] }
