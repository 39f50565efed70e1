package pack

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// LeftOut is what the .gitignore files leave out under one name.
type LeftOut struct {
	// Name is the path of a file or, with a slash at its end, of a directory; "*.ckpt" for several files, "build/" for several directories.
	Name string `json:"name"`
	// Count is how many files or directories these are.
	Count int `json:"count"`
	// Bytes is the size of the directories with all that is in them; 0 for files.
	Bytes int64 `json:"bytes,omitempty"`
	// More is true if the directories were too large to be measured whole, and have more bytes.
	More bool `json:"more,omitempty"`
}

// Of returns what is left out under this name that a file is or is in, such as data/; "" if there is nothing.
func (l LeftOut) Of(file string) string {
	dir, isDir := strings.CutSuffix(l.Name, "/")
	ext, isExt := strings.CutPrefix(l.Name, "*")
	switch {
	case isDir && l.Count == 1 && (file == dir || strings.HasPrefix(file, l.Name)):
		return l.Name
	case isDir && l.Count > 1:
		parts := strings.Split(file, "/")
		if i := slices.Index(parts, dir); i >= 0 {
			return strings.Join(parts[:i+1], "/") + "/"
		}
	case isExt && path.Ext(file) == ext, !isExt && !isDir && (file == l.Name || l.Count > 1 && path.Base(file) == l.Name):
		return file
	}
	return ""
}

// How much of the directories that are left out is looked at, so that a large one costs no second. The time is for file systems that answer slowly.
const (
	measuredEntries = 10_000
	measuredTime    = 100 * time.Millisecond
	unhurried       = 1_000 // entries of a directory that are measured whatever time that takes, so that a small one always is
)

// leftOut groups and measures what is left out until ctx ends, the largest first.
func leftOut(ctx context.Context, all []left) []LeftOut {
	rest := 0 // directories to measure
	names := map[string]int{}
	for _, l := range all {
		names[l.group()]++
		if l.dir {
			rest++
		}
	}
	budget := measuredEntries
	groups := map[string]*LeftOut{}
	for _, l := range all {
		name := l.group()
		if names[name] == 1 {
			name = l.alone()
		}
		g := groups[name]
		if g == nil {
			g = &LeftOut{Name: name}
			groups[name] = g
		}
		g.Count++
		if l.dir {
			share := budget / rest
			size, used, whole := measure(ctx, l.path, share)
			g.Bytes, g.More = g.Bytes+size, g.More || !whole
			budget, rest = budget-used, rest-1
		}
	}
	return sorted(groups)
}

func sorted(groups map[string]*LeftOut) []LeftOut {
	var out []LeftOut
	for _, g := range groups {
		out = append(out, *g)
	}
	slices.SortFunc(out, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// group is the name that files of one kind, and directories of one name, have together.
func (l left) group() string {
	base := path.Base(l.name)
	switch ext := path.Ext(base); {
	case l.dir:
		return base + "/"
	case ext != "" && ext != base && ext != ".":
		return "*" + ext
	}
	return base
}

// alone is the name of what is the only one of its group.
func (l left) alone() string {
	if l.dir {
		return l.name + "/"
	}
	return l.name
}

// measure returns the size of a directory's files. whole is false if it has more entries than budget, the time has passed, or a part cannot be read.
func measure(ctx context.Context, dir string, budget int) (size int64, used int, whole bool) {
	whole = true
	for dirs := []string{dir}; len(dirs) > 0; {
		last := len(dirs) - 1
		dir, dirs = dirs[last], dirs[:last]
		err := inChunks(dir, func(entries []fs.DirEntry) error {
			for _, entry := range entries {
				if used++; used > budget || used > unhurried && ctx.Err() != nil {
					return errBudget
				}
				switch info, err := entry.Info(); {
				case err != nil:
					whole = false
				case info.IsDir():
					dirs = append(dirs, filepath.Join(dir, entry.Name()))
				case info.Mode().IsRegular():
					size += info.Size()
				}
			}
			return nil
		})
		whole = whole && err == nil
		if errors.Is(err, errBudget) {
			break
		}
	}
	return size, min(used, budget), whole
}

var errBudget = errors.New("enough is measured")

// inChunks reads a directory, of which a large one would take seconds at once.
func inChunks(dir string, each func([]fs.DirEntry) error) error {
	in, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer in.Close()
	for {
		entries, err := in.ReadDir(500)
		if eachErr := each(entries); eachErr != nil {
			return eachErr
		}
		if err != nil {
			return ignoreEOF(err)
		}
	}
}
