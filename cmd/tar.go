package cmd

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/launcher"
)

// absolute is p from the root, so that "." and ".." have a name.
func absolute(p string) string {
	abs, err := filepath.Abs(p)
	if err != nil {
		return p
	}
	return abs
}

// tarOut writes a file or directory as name.
func tarOut(src, name string, w io.Writer) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(src, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, p)
		if err != nil {
			return err
		}
		return tarEntry(t, p, path.Join(name, filepath.ToSlash(rel)))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return fail(launcher.CodeSpec, err, "", "%s does not exist", src)
	}
	if err != nil {
		return err
	}
	return t.Close()
}

func tarEntry(t *tar.Writer, file, name string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(file); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(t, f)
	return err
}

// tarIn unpacks the archive of name to dst, or into dst if that is a directory. Nothing in the archive can reach outside: the node is
// not trusted with this machine's files.
func tarIn(r io.Reader, name, dst string) error {
	parent, target := filepath.Split(absolute(dst))
	if info, err := os.Stat(dst); err == nil && info.IsDir() {
		parent, target = dst, name
	} else if strings.HasSuffix(dst, string(filepath.Separator)) {
		return fail(launcher.CodeSpec, nil, "", "there is no directory %s here", dst)
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return fail(launcher.CodeSpec, err, "", "%v", err)
	}
	defer root.Close()
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			_, err = io.Copy(io.Discard, r) // what tar pads with
			return err
		case err != nil:
			return err
		}
		rel := strings.TrimPrefix(path.Clean(h.Name), name)
		if err := unpack(root, h, path.Join(target, rel), t); err != nil {
			return fmt.Errorf("unpacking %s: %w", h.Name, err)
		}
	}
}

func unpack(root *os.Root, h *tar.Header, name string, r io.Reader) error {
	mode := fs.FileMode(h.Mode).Perm()
	switch h.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) { // as tar and cp do
			return err
		}
		return root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		f, err := root.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		return err
	default:
		return nil // devices and sockets are no use here
	}
}
