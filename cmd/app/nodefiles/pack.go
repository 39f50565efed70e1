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

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// packer writes an archive. It leaves out everything but files, directories and symbolic links.
type packer struct {
	to      *tar.Writer
	sent    *launcher.Meter
	LeftOut []string
}

// newPacker writes an archive to w and reports its progress to sent.
func newPacker(w io.Writer, sent *launcher.Meter) *packer {
	return &packer{to: tar.NewWriter(w), sent: sent}
}

// Pack writes a file or directory as name.
func (p *packer) Pack(src, name string) error {
	err := filepath.WalkDir(src, func(file string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, file)
		if err != nil {
			return err
		}
		return p.entry(file, path.Join(name, filepath.ToSlash(rel)))
	})
	if errors.Is(err, fs.ErrNotExist) {
		return launcher.Fail(runstate.CodeSpec, err, "name a file or a directory that is there", "%s does not exist", src)
	}
	if err != nil {
		return err
	}
	return p.to.Close()
}

func (p *packer) entry(file, name string) error {
	info, err := os.Lstat(file)
	if err != nil {
		return err
	}
	if info.Mode().Type()&^(fs.ModeDir|fs.ModeSymlink) != 0 {
		p.LeftOut = append(p.LeftOut, file)
		return nil
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
	if err := p.to.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(p.to, p.sent.Reader(f))
	return err
}
