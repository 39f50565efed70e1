package rayenv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
)

// grow begins the environment as a copy of a kept one, so that what both have is neither resolved nor compiled again. It reports false where there is none to copy.
func (in installation) grow(ctx context.Context) (bool, error) {
	base := in.base()
	if base == "" {
		return false, nil
	}
	held, err := sharedfile.Acquire(ctx, base+".lock") // nobody removes it meanwhile
	if ctx.Err() != nil {
		return false, in.interrupted(ctx)
	}
	if err != nil {
		return false, writeFailed(in.dir, err)
	}
	defer held.Release()
	if !complete(base) {
		return false, nil
	}
	switch err := duplicate(ctx, base, in.dir); {
	case ctx.Err() != nil:
		return false, in.interrupted(ctx)
	case err != nil:
		in.detail("the environment " + base + " cannot be copied: " + err.Error())
		return false, in.empty()
	}
	in.detail("copied the environment " + base)
	return true, nil
}

// base is the kept environment that has the most of what is wanted; "": none is of use.
func (in installation) base() string {
	best, most := "", -1
	for dir, kept := range withLock(filepath.Dir(in.dir), in.lock) {
		if len(kept.Wishes) > most && in.growsFrom(kept) && maps.Equal(kept.Distributions, distributions(dir)) && complete(dir) {
			best, most = dir, len(kept.Wishes)
		}
	}
	return best
}

// withLock are the kept environments that began with a lock.
func withLock(envs, lock string) iter.Seq2[string, note] {
	return func(yield func(string, note) bool) {
		found, err := filepath.Glob(filepath.Join(globQuoted(envs), "*", marker))
		if err != nil || lock == "" {
			return
		}
		key := keyOf(lock, nil)
		for _, path := range found {
			dir := filepath.Dir(path)
			if kept, err := noteOf(dir); err == nil && kept.Lock == key && !yield(dir, kept) {
				return
			}
		}
	}
}

// keptPython is the interpreter of a kept environment, which need not be asked anything.
func (o Options) keptPython() (py python, ok bool) {
	for dir, kept := range withLock(filepath.Join(o.CacheDir, "envs"), o.lock()) {
		path, err := filepath.EvalSymlinks(interpreterIn(dir)) // the environment may go
		if n, _ := fmt.Sscanf(kept.Python, "%d.%d", &py.Version[0], &py.Version[1]); err == nil && n == 2 && complete(dir) {
			py.Path = path
			return py, true
		}
	}
	return python{}, false
}

// growsFrom reports whether a kept environment has nothing but what is wanted. One with the lock alone always serves; its files are known by their hashes. One with
// packages came from the same indexes, with the same constraints.
func (in installation) growsFrom(kept note) bool {
	if kept.Python != in.python.minor() {
		return false
	}
	if len(kept.Wishes) == 0 {
		return true
	}
	wanted := wishes(in.requirements[1:])
	sameOptions := slices.Equal(kept.Options, wishes(options(in.requirements[1:])))
	return sameOptions && !slices.ContainsFunc(kept.Wishes, func(w string) bool { return !slices.Contains(wanted, w) })
}

// wishes are checksums of lines of requirements with the content of the files that they name, sorted.
func wishes(lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		out = append(out, keyOf("", []string{line}))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// option matches a line of requirements that changes which file of a package is taken. An editable project is none.
var option = regexp.MustCompile(`^\s*-`)

func options(lines []string) (out []string) {
	for _, line := range lines {
		if option.MatchString(line) && !clientfiles.ParseLine(line).Editable {
			out = append(out, line)
		}
	}
	return out
}

// duplicate copies an environment beside itself. Files that nobody writes into are shared: those that the installer shares already with its cache, and what Python
// compiled, which it replaces as a whole. The others are copied, and in the programs and the settings the new directory's name replaces the old one's.
func duplicate(ctx context.Context, from, to string) error {
	was, is := filepath.Base(from), filepath.Base(to)
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return ignoreGone(err)
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o755)
		case relative == marker:
			return nil
		case e.Type() == fs.ModeSymlink:
			named, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(strings.ReplaceAll(named, from, to), target)
		}
		info, err := e.Info()
		switch {
		case err != nil:
			return ignoreGone(err)
		case shared(info):
			return ignoreGone(os.Link(path, target))
		case filepath.Dir(relative) == "bin" || relative == "pyvenv.cfg":
			return rewrite(path, target, was, is, info.Mode())
		}
		return ignoreGone(copyFile(path, target, info))
	})
}

// ignoreGone forgives that a file is not there any more: Python, which may run there, compiles under a temporary name.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func shared(info fs.FileInfo) bool { return links(info) > 1 || filepath.Ext(info.Name()) == ".pyc" }

// links is how many names a file has.
func links(info fs.FileInfo) int {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(stat.Nlink) //nolint:gosec // a file system allows far fewer
	}
	return 1
}

func rewrite(path, target, was, is string, mode fs.FileMode) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(target, []byte(strings.ReplaceAll(string(text), was, is)), mode.Perm())
}

// copyFile keeps the time, by which Python knows whether what it compiled is of this source.
func copyFile(path, target string, info fs.FileInfo) error {
	source, err := os.Open(path)
	if err != nil {
		return err
	}
	defer source.Close()
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(file, source)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Chtimes(target, info.ModTime(), info.ModTime())
}
