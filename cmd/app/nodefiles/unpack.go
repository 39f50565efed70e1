package nodefiles

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// unpacker unpacks the archive of name on this machine. Nothing is written outside of the destination, because the node is not trusted with this
// machine's files: a link in the place of the target is replaced or refused, never followed, no link becomes the target, and what is below the target is
// written under its opened directory, out of which no link leads. Each file is written beside the one it replaces, and renamed when complete; the target
// itself when the archive has ended.
type unpacker struct {
	name    string
	root    string // the archive's first entry, which is the target: name, or "." where the node followed a link to a directory
	LeftOut []string

	parent *os.Root
	target string   // in parent: the place of name
	Path   string   // the same, absolute
	Marker string   // a file beside the target while it is copied; empty: the target is written directly
	made   string   // a directory that was made for it
	staged string   // in parent: a file to be renamed to the target
	tree   *os.Root // the target, if it is a directory: no link leads out of it
	whole  bool     // a file: nothing may follow
}

// newUnpacker makes an unpacker for the archive of one file or directory of that name.
func newUnpacker(name string) *unpacker { return &unpacker{name: name} }

// Open resolves the target: dst, or name in dst if that is a directory, or a link to one.
func (u *unpacker) Open(dst string) error {
	info, err := os.Stat(dst)
	isDir := err == nil && info.IsDir()
	parent, target := filepath.Split(absolute(dst))
	if !isDir && strings.HasSuffix(dst, string(filepath.Separator)) {
		if os.Mkdir(dst, 0o777) != nil {
			return launcher.Fail(runstate.CodeSpec, nil, "`mkdir -p "+shellescape.Quote(dst)+"` makes it", "there is no directory %s here", dst)
		}
		isDir, u.made = true, absolute(dst)
	}
	if isDir {
		parent, target = absolute(dst), u.name
	}
	if target == ".." {
		return launcher.Fail(runstate.CodeSpec, nil, "write its own name in place of ..", "the node's directory has no name that it could have in %s", dst)
	}
	if u.parent, err = os.OpenRoot(parent); err != nil {
		return launcher.Fail(runstate.CodeSpec, err, "name a directory that is there and that you may write", "%v", err)
	}
	u.target, u.Path = target, filepath.Join(parent, target)
	if !isDir && info != nil && isStream(u.Path) {
		return nil
	}
	marker := "." + stageName()
	if err := write(u.parent, marker, os.O_EXCL, 0o600, strings.NewReader("")); err != nil {
		u.Close()
		return fmt.Errorf("nothing can be written in %s: %w", parent, err)
	}
	u.Marker = filepath.Join(parent, marker)
	return nil
}

// isStream reports whether a destination is written into: a terminal, a pipe, or one of the system's links to an open file, as /dev/stdout is.
func isStream(path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.IsDir() || info.Mode().IsRegular() {
		return false
	}
	dir := filepath.Dir(path)
	return info.Mode()&fs.ModeSymlink == 0 || dir == "/dev" || dir == "/dev/fd" || strings.HasPrefix(dir, "/proc/")
}

// Close removes unfinished files.
func (u *unpacker) Close() {
	if u.Marker != "" {
		_ = u.parent.Remove(filepath.Base(u.Marker))
	}
	if u.staged != "" {
		_ = u.parent.Remove(u.staged)
	}
	_ = u.parent.Close()
	if u.made != "" {
		_ = os.Remove(u.made) // if nothing is in it
	}
}

// Entries unpacks the archive, and renames the target to its place when all has arrived.
func (u *unpacker) Entries(r io.Reader) error {
	defer func() {
		if u.tree != nil {
			u.tree.Close()
		}
	}()
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			if _, err = io.Copy(io.Discard, r); err != nil { // the padding of tar, and the error at the end
				return err
			}
			return u.commit()
		case err != nil:
			return err
		}
		rel, err := u.within(h.Name)
		if err == nil && rel == "." {
			err = u.top(h, t)
		} else if err == nil {
			err = u.below(h, rel, t)
		}
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", h.Name, err)
		}
	}
}

// within is the place of an archive's name relative to the target.
func (u *unpacker) within(member string) (string, error) {
	name := path.Clean(member)
	if u.root == "" && (name == u.name || name == ".") {
		u.root = name
	}
	rel, below := name, true
	switch {
	case u.root != "" && name == u.root:
		return ".", nil
	case u.root != ".":
		rel, below = strings.CutPrefix(name, u.root+"/")
	}
	if u.root == "" || !below || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("the node's archive names %q, which is not in %s", member, u.name)
	}
	return rel, nil
}

// top makes the target.
func (u *unpacker) top(h *tar.Header, r io.Reader) error {
	mode := fs.FileMode(h.Mode).Perm()
	switch {
	case u.whole:
		return errors.New("the node's archive has data after its end")
	case h.Typeflag == tar.TypeDir:
		return u.directory(mode)
	case h.Typeflag == tar.TypeReg && u.tree == nil:
		u.whole = true
		return u.file(mode, r)
	case h.Typeflag == tar.TypeSymlink: // the node's shell follows one, so this one came later, or the node lies
		return launcher.Fail(runstate.CodeSpec, nil, "name the file or directory that it leads to", "the node sent a link in place of %s", u.name)
	default:
		return launcher.Fail(runstate.CodeSpec, nil, "name a file or a directory", "%s is neither a file nor a directory on the node", u.name)
	}
}

// file writes the target: to a file beside it, unless the target is something like a terminal.
func (u *unpacker) file(mode fs.FileMode, r io.Reader) error {
	if u.Marker == "" {
		out, err := os.OpenFile(u.Path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		return errors.Join(err, out.Close())
	}
	old, err := u.parent.Lstat(u.target)
	switch {
	case err == nil && old.IsDir():
		return u.occupied("a directory here, and a file on the node")
	case err == nil && old.Mode().Type()&^fs.ModeSymlink != 0:
		return u.occupied("neither a file nor a directory")
	}
	u.staged = "." + stageName()
	if err := write(u.parent, u.staged, os.O_EXCL, mode, r); err != nil {
		return err
	}
	if old != nil && old.Mode().IsRegular() { // keep its mode, as writing into it would
		return u.parent.Chmod(u.staged, old.Mode().Perm())
	}
	return nil
}

// commit renames a file to its place.
func (u *unpacker) commit() error {
	if u.staged == "" {
		return nil
	}
	err := u.parent.Rename(u.staged, u.target)
	if err == nil {
		u.staged = ""
	}
	return err
}

// replace writes a file of the tree beside the one it replaces, and renames it.
func replace(root *os.Root, name string, mode fs.FileMode, r io.Reader) error {
	staged := filepath.Join(filepath.Dir(name), "."+stageName())
	err := write(root, staged, os.O_EXCL, mode, r)
	if err == nil {
		err = root.Rename(staged, name)
	}
	if err != nil {
		_ = root.Remove(staged)
	}
	return err
}

// directory opens the target as a directory, which may exist already.
func (u *unpacker) directory(mode fs.FileMode) error {
	if u.tree != nil {
		return nil
	}
	err := u.parent.Mkdir(u.target, mode|0o700)
	if errors.Is(err, fs.ErrExist) {
		var old fs.FileInfo
		switch old, err = u.parent.Lstat(u.target); {
		case err == nil && old.Mode()&fs.ModeSymlink != 0:
			return u.occupied("a link here, which is followed only if it is DST itself")
		case err == nil && !old.IsDir():
			return u.occupied("no directory here, but one on the node")
		}
	}
	if err == nil {
		u.tree, err = u.parent.OpenRoot(u.target)
	}
	return err
}

// occupied is the error of a target that may not be replaced.
func (u *unpacker) occupied(is string) error {
	return launcher.Fail(runstate.CodeSpec, nil, "choose another DST, or remove it", "%s is %s", u.Path, is)
}

// below makes an entry in the target. It replaces an existing one, like tar: writing into it would change all of its hard links.
func (u *unpacker) below(h *tar.Header, name string, r io.Reader) error {
	mode := fs.FileMode(h.Mode).Perm()
	if u.tree == nil {
		return errors.New("the node's archive has no directory for it")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.tree.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		return symlink(u.tree, h.Linkname, name)
	case tar.TypeLink:
		return u.link(h, name)
	case tar.TypeReg:
		return replace(u.tree, name, mode, r)
	default:
		u.LeftOut = append(u.LeftOut, h.Name)
		return nil
	}
}

// link adds a hard link to a file that was unpacked before.
func (u *unpacker) link(h *tar.Header, name string) error {
	if slices.Contains(u.LeftOut, h.Linkname) {
		u.LeftOut = append(u.LeftOut, h.Name)
		return nil
	}
	old, err := u.within(h.Linkname)
	if err != nil || old == name {
		return err
	}
	if err := vacate(u.tree, name); err != nil {
		return err
	}
	return u.tree.Link(old, name)
}

func symlink(root *os.Root, to, name string) error {
	if err := vacate(root, name); err != nil {
		return err
	}
	return root.Symlink(to, name)
}

// vacate removes an entry, except a directory that is not empty.
func vacate(root *os.Root, name string) error {
	err := root.Remove(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func write(root *os.Root, name string, flag int, mode fs.FileMode, r io.Reader) error {
	f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|flag, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
