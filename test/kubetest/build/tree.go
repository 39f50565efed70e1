package build

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// tree is the content of an image's layer, by absolute path in the image.
type tree struct{ entries map[string]entry }

// entry is a file (copied from source, or with text), a link, or a directory.
type entry struct {
	source string
	text   []byte
	link   string
	dir    bool
	mode   fs.FileMode
	mtime  time.Time
	uid    int
	gid    int
}

// newTree has the links of a merged /usr, and the directories that programs expect.
func newTree() *tree {
	t := &tree{entries: map[string]entry{}}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		t.link("/"+dir, "usr/"+dir)
		t.dir("/usr/"+dir, 0o755)
	}
	for _, dir := range []string{"/dev", "/proc", "/sys", "/run", "/etc", "/var"} {
		t.dir(dir, 0o755)
	}
	t.dir("/tmp", 0o1777)
	t.dir("/var/tmp", 0o1777)
	return t
}

func (t *tree) put(name string, e entry) {
	name = merged(path.Clean(name))
	for parent := path.Dir(name); parent != "/"; parent = path.Dir(parent) {
		if _, ok := t.entries[parent]; !ok {
			t.entries[parent] = entry{dir: true, mode: 0o755}
		}
	}
	t.entries[name] = e
}

// merged resolves /bin, /lib, ... in a path to /usr/bin, /usr/lib, ...
func merged(name string) string {
	for _, dir := range []string{"/bin/", "/sbin/", "/lib/", "/lib64/"} {
		if strings.HasPrefix(name, dir) {
			return "/usr" + name
		}
	}
	return name
}

func (t *tree) file(name, source string, mode fs.FileMode) {
	t.put(name, entry{source: source, mode: mode})
}
func (t *tree) text(name, text string, mode fs.FileMode) {
	t.put(name, entry{text: []byte(text), mode: mode})
}
func (t *tree) link(name, target string) { t.put(name, entry{link: target, mode: 0o777}) }

func (t *tree) dir(name string, mode fs.FileMode) { t.put(name, entry{dir: true, mode: mode}) }

func (t *tree) has(name string) bool { _, ok := t.entries[merged(name)]; return ok }

// copy adds one file or link of the machine under a name and leaves out anything else. Times are kept, because Python compares them with
// those in its compiled files.
func (t *tree) copy(name, source string) error {
	info, err := os.Lstat(source)
	if err != nil {
		return err
	}
	switch {
	case info.Mode().IsRegular():
		t.put(name, entry{source: source, mode: info.Mode().Perm(), mtime: info.ModTime()})
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(source)
		if err != nil {
			return err
		}
		t.link(name, target)
	case info.IsDir():
		t.dir(name, info.Mode().Perm())
	}
	return nil
}

// copyTree adds a directory of the machine, without entries for which skip (given the path below source) is true.
func (t *tree) copyTree(name, source string, skip func(rel string, d fs.DirEntry) bool) error {
	return filepath.WalkDir(source, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(source, file)
		if err != nil {
			return err
		}
		if rel != "." && skip(rel, d) {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		return t.copy(path.Join(name, rel), file)
	})
}

// own gives everything below dir to a user.
func (t *tree) own(dir string, uid, gid int) {
	for name, e := range t.entries {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			e.uid, e.gid = uid, gid
			t.entries[name] = e
		}
	}
}

// write writes the tree as a tar archive, the same bytes for the same content.
func (t *tree) write(w io.Writer) error {
	names := make([]string, 0, len(t.entries))
	for name := range t.entries {
		names = append(names, name)
	}
	sort.Strings(names)
	archive := tar.NewWriter(w)
	for _, name := range names {
		if err := t.entries[name].write(archive, strings.TrimPrefix(name, "/")); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return archive.Close()
}

func (e entry) write(archive *tar.Writer, name string) error {
	header := &tar.Header{Name: name, Mode: int64(e.mode), Uid: e.uid, Gid: e.gid, ModTime: e.mtime.Truncate(time.Second), Format: tar.FormatPAX}
	switch {
	case e.dir:
		header.Name += "/"
		header.Typeflag = tar.TypeDir
		return archive.WriteHeader(header)
	case e.link != "":
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.link
		return archive.WriteHeader(header)
	case e.source != "":
		return addFile(archive, header, e.source)
	}
	header.Typeflag, header.Size = tar.TypeReg, int64(len(e.text))
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err := io.Copy(archive, bytes.NewReader(e.text))
	return err
}
