package pack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
}

// walk lists the files to pack, in a fixed order.
func walk(ctx context.Context, src source, opts Options) ([]file, error) {
	root, err := os.Stat(src.root)
	if err != nil {
		return nil, readable(err)
	}
	w := &walker{ctx: ctx, opts: opts, src: src, within: []identity{identify(root)}}
	outer, err := newRules(src.root, opts)
	if err != nil {
		return nil, readable(err)
	}
	if !unpackable(src.prefix) {
		w.names = append(w.names, src.prefix)
	}
	if err := w.directory(src.root, "", outer); err != nil {
		return nil, err
	}
	if len(w.names) > 0 {
		return nil, &NamesError{w.names}
	}
	return w.files, nil
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
		name := entry.Name()
		if relative != "" {
			name = relative + "/" + name
		}
		if err := w.entry(path, name, entry, inner); err != nil {
			return err
		}
	}
	return nil
}

func (w *walker) entry(dir, name string, entry fs.DirEntry, r rules) error {
	path := filepath.Join(dir, entry.Name())
	if w.src.only == "" && r.skip(name, entry.IsDir()) {
		return nil
	}
	info, err := entry.Info()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		info, err = os.Stat(path)
		if err == nil && info.IsDir() && w.src.only == "" && r.skip(name, true) {
			return nil
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		w.opts.Logger.Warn("left out: it was deleted meanwhile, or is a broken link", "path", path)
		return nil
	}
	if err != nil {
		return readable(err)
	}
	if !unpackable(name) {
		w.names = append(w.names, name)
		return nil
	}
	switch {
	case info.IsDir():
		return w.subdirectory(path, name, info, r)
	case info.Mode().IsRegular():
		w.add(path, name, info)
	default:
		w.opts.Logger.Warn("left out: it is no regular file", "path", path)
	}
	return nil
}

// unpackable reports whether Ray makes a file of this name: its zip files have names in UTF-8, in which it takes a backslash for a slash.
func unpackable(name string) bool { return utf8.ValidString(name) && !strings.Contains(name, `\`) }

func (w *walker) subdirectory(path, relative string, info fs.FileInfo, r rules) error {
	self := identify(info)
	for _, outer := range w.within {
		if outer == self {
			w.opts.Logger.Warn("left out: the link leads back to a directory that it is in", "path", path)
			return nil
		}
	}
	w.within = append(w.within, self)
	defer func() { w.within = w.within[:len(w.within)-1] }()
	empty, err := isEmpty(path)
	if err != nil {
		return readable(err)
	}
	if empty {
		w.add(path, relative+"/", info)
		return nil
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
