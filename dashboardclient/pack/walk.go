package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// file is a file, or an empty directory, to be packed.
type file struct {
	name  string // in the zip, with slashes
	path  string // on disk
	dir   bool
	mode  fs.FileMode // permission bits
	state state       // from the walk
}

// state shows, without reading, whether a file changed.
type state struct {
	size, mtime, ctime int64 // bytes; nanoseconds since 1970
	inode              uint64
}

// identity identifies a directory on the walk's current path.
type identity struct{ device, inode uint64 }

// walker lists a source.
type walker struct {
	ctx    context.Context
	opts   Options
	src    source
	files  []file
	names  []string   // that Ray cannot unpack
	within []identity // the directories from root to here, to detect links to a parent
	left   []left     // by .gitignore
	notes  []string
}

// left is a file, or a directory with all that is in it, that a .gitignore leaves out.
type left struct {
	name string // below the top, with slashes
	path string // on disk
	dir  bool
}

// walk lists the files to pack, in a fixed order.
func walk(ctx context.Context, src source, opts Options) (*walker, error) {
	w, err := newWalker(ctx, src, opts)
	if err != nil {
		return nil, err
	}
	if !unpackable(src.prefix) {
		w.names = append(w.names, src.prefix)
	}
	rules := newRules(opts)
	if err := w.tree(src.root, "", rules); err != nil {
		return nil, err
	}
	if len(w.names) > 0 {
		return nil, &NamesError{w.names}
	}
	w.sort()
	w.noteIneffective(*rules.negations)
	return w, nil
}

func newWalker(ctx context.Context, src source, opts Options) (*walker, error) {
	root, err := os.Stat(src.root)
	if err != nil {
		return nil, readable(err)
	}
	return &walker{ctx: ctx, opts: opts, src: src, within: []identity{identify(root)}}, nil
}

// sort orders the files and leaves out what is there twice: git lists a tracked file behind a link and the link, and what was taken back comes last.
func (w *walker) sort() {
	byName := func(a, b file) int { return compareNames(a.name, b.name) }
	if !slices.IsSortedFunc(w.files, byName) {
		slices.SortStableFunc(w.files, byName)
	}
	w.files = slices.CompactFunc(w.files, func(a, b file) bool { return a.name == b.name })
}

// noteIneffective names the patterns that were to take something back, and do not.
func (w *walker) noteIneffective(negations []*negation) {
	if w.src.only != "" {
		return
	}
	for _, n := range negations {
		if !n.effective {
			w.note("%s of %s takes nothing back: there is no such file that is left out, or a directory above it is left out", n.text, n.source)
		}
	}
}

func (w *walker) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}

// tree lists a directory as git does if it lies in a work tree, else by its .gitignore files.
func (w *walker) tree(path, relative string, r rules) error {
	if w.src.only != "" || r.noGitignore || r.ignored {
		return w.directory(path, relative, r)
	}
	listing, err := gitFiles(w.ctx, path, r.names())
	switch {
	case w.ctx.Err() != nil:
		return w.ctx.Err()
	case err != nil:
		w.note("git does not list the files of %s (%v): rayctl reads the .gitignore files in it, and leaves out also tracked files that match%s", path, err, trustHint(path, err))
	case listing != nil && len(listing.files) > 0:
		return w.listing(path, relative, r, listing)
	case listing != nil && len(listing.ignored) > 0 && relative == "":
		w.note("git ignores all that is in %s: rayctl leaves out only what the .gitignore files in it name", path)
	}
	return w.withoutGit(path, relative, r)
}

// withoutGit lists a directory by its .gitignore files.
func (w *walker) withoutGit(path, relative string, r rules) (err error) {
	if r.gitignore, err = extend(r.gitignore, gitExclude(path), baseOf(relative)); err != nil {
		return readable(err)
	}
	return w.directory(path, relative, r)
}

// directory lists the content of a directory. relative is its path below the top, with slashes; empty for the top.
func (w *walker) directory(path, relative string, outer rules) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	entries, err := os.ReadDir(path) // sorted by name
	if err != nil {
		return readable(err)
	}
	inner, err := outer.in(path, relative, entries)
	if err != nil {
		return readable(err)
	}
	for _, entry := range entries {
		if w.src.only != "" && entry.Name() != w.src.only {
			continue
		}
		name := strings.TrimPrefix(relative+"/"+entry.Name(), "/")
		if err := w.entry(filepath.Join(path, entry.Name()), name, entry, inner); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(path, name string, entry fs.DirEntry, r rules) error {
	r, ok := w.admits(path, name, entry.IsDir(), r, r.gitignored(name, entry.IsDir()))
	if !ok {
		return nil
	}
	info, err := entry.Info()
	if errors.Is(err, fs.ErrNotExist) {
		w.opts.Logger.Warn("left out: it was deleted meanwhile", "path", path)
		return nil
	}
	if err != nil {
		return readable(err)
	}
	return w.found(path, name, info, r)
}

// admits reports whether something is packed, or may have something in it that is, and returns the rules inside it. gitignored: a .gitignore leaves it out.
func (w *walker) admits(path, name string, dir bool, r rules, gitignored bool) (inner rules, ok bool) {
	if w.src.only != "" {
		return r, true
	}
	switch r.ours(name, dir, gitignored || r.ignored) {
	case excluded:
		return r, false
	case takenBack:
		r.noGitignore = r.noGitignore || gitignored || r.ignored
		r.ignored = false
		return r, true
	case unmentioned:
	}
	if gitignored && !r.ignored {
		w.left = append(w.left, left{name: name, path: path, dir: dir})
	}
	r.ignored = r.ignored || gitignored
	return r, !r.ignored || dir && r.takesBackBelow(name)
}

// found adds a file, or what is in a directory. Links are followed.
func (w *walker) found(path, name string, info fs.FileInfo, r rules) (err error) {
	link := info.Mode()&fs.ModeSymlink != 0
	if link {
		if info, err = os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			w.opts.Logger.Warn("left out: it is a broken link", "path", path)
			return nil
		}
		if err != nil {
			return readable(err)
		}
		ok := true
		if info.IsDir() {
			r, ok = w.admits(path, name, true, r, r.gitignored(name, true))
		}
		if !ok {
			return nil
		}
	}
	if !unpackable(name) {
		w.names = append(w.names, name)
		return nil
	}
	switch {
	case info.IsDir():
		return w.subdirectory(path, name, info, r, link)
	case info.Mode().IsRegular():
		w.add(path, name, info)
	default:
		w.opts.Logger.Warn("left out: it is no regular file", "path", path)
	}
	return nil
}

// unpackable reports whether Ray makes a file of this name: its zip files have names in UTF-8, in which it takes a backslash for a slash.
func unpackable(name string) bool { return utf8.ValidString(name) && !strings.Contains(name, `\`) }

// subdirectory lists a directory. crossing: it may lie in another work tree, or in none.
func (w *walker) subdirectory(path, relative string, info fs.FileInfo, r rules, crossing bool) error {
	self := identify(info)
	if slices.Contains(w.within, self) {
		w.opts.Logger.Warn("left out: the link leads back to a directory that it is in", "path", path)
		return nil
	}
	w.within = append(w.within, self)
	defer func() { w.within = w.within[:len(w.within)-1] }()
	empty, err := isEmpty(path)
	if err != nil {
		return readable(err)
	}
	if empty {
		if !r.ignored {
			w.add(path, relative+"/", info)
		}
		return nil
	}
	if !crossing {
		_, err := os.Lstat(filepath.Join(path, ".git"))
		crossing = err == nil
	}
	if crossing {
		return w.tree(path, relative, r)
	}
	return w.directory(path, relative, r)
}

func isEmpty(path string) (bool, error) {
	dir, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(1)
	return len(names) == 0, ignoreEOF(err)
}

func (w *walker) add(path, name string, info fs.FileInfo) {
	if w.src.prefix != "" {
		name = w.src.prefix + "/" + name
	}
	f := file{name: name, path: path, dir: info.IsDir(), mode: info.Mode().Perm(), state: stateOf(info)}
	if f.dir {
		f.state.size = 0 // differs between file systems
	}
	w.files = append(w.files, f)
}

// readable is the hint for a file that cannot be read.
func readable(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w: make it readable, or exclude it with .rayignore", err)
	}
	return err
}
