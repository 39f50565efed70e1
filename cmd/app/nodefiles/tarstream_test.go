package nodefiles

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
)

func tarOut(src, name string, w io.Writer) error {
	return newPacker(w, &launcher.Meter{}).Pack(src, name)
}

func tarIn(r io.Reader, name, dst string) error { return unpack(newUnpacker(name), r, dst) }

// unpack writes to dst, or into dst if that is a directory.
func unpack(u *unpacker, r io.Reader, dst string) error {
	if err := u.Open(dst); err != nil {
		return err
	}
	defer u.Close()
	return u.Entries(r)
}

// archive contains these entries; files have the content "hostile".
func archive(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	for _, h := range entries {
		content := ""
		if h.Mode == 0 {
			h.Mode = 0o755
		}
		if h.Typeflag == tar.TypeReg {
			content = "hostile"
		}
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b
}

// TestTarRoundTrip copies a tree.
func TestTarRoundTrip(t *testing.T) {
	src := filepath.Join(t.TempDir(), "src")
	if err := os.MkdirAll(filepath.Join(src, "in ner"), 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(src, "in ner", "a\n$(b)")
	if err := os.WriteFile(file, []byte("content"), 0o751); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tarOut(src, "src", &b); err != nil {
		t.Fatal(err)
	}
	dst := filepath.Join(t.TempDir(), "dst")
	if err := tarIn(&b, "src", dst); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dst, "in ner", "a\n$(b)"))
	if err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestTarOfANode unpacks an archive of the system's tar. Hard links stay hard links, a second copy changes no file through them, hidden files
// keep their names, and a fifo is reported.
func TestTarOfANode(t *testing.T) {
	node := t.TempDir()
	script := `umask 22; mkdir src && cd src && echo content > .file && ln .file linked && mkdir d && ln .file d/again && ln -s linked soft && mkfifo fifo`
	made := exec.Command("sh", "-c", script)
	made.Dir = node
	if out, err := made.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, test := range map[string]struct{ parent, member string }{"by name": {node, "src"}, "by dot": {filepath.Join(node, "src"), "."}} {
		t.Run(name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "dst")
			for range 2 {
				packed, err := exec.Command("tar", "-C", test.parent, "-cf", "-", "--", test.member).Output()
				if err != nil {
					t.Fatal(err)
				}
				u := newUnpacker(test.member)
				if err := unpack(u, bytes.NewReader(packed), dst); err != nil {
					t.Fatal(err)
				}
				if len(u.LeftOut) != 1 || !strings.HasSuffix(u.LeftOut[0], "fifo") {
					t.Errorf("left out: %q", u.LeftOut)
				}
				if err := os.MkdirAll(filepath.Join(dst, test.member), 0o755); err == nil && test.member != "." {
					dst = filepath.Dir(filepath.Join(dst, test.member)) // the second copy goes into dst
				}
			}
			at := filepath.Join(dst, test.member)
			first, err := os.Stat(filepath.Join(at, ".file"))
			if err != nil {
				t.Fatal(err)
			}
			for _, other := range []string{"linked", "d/again", "soft"} {
				if info, err := os.Stat(filepath.Join(at, other)); err != nil || !os.SameFile(first, info) {
					t.Errorf("%s is not the same file: %v", other, err)
				}
			}
		})
	}
}

// TestTarOverLinks: where an earlier copy made several names of one file, unpacking over them makes a file of each.
func TestTarOverLinks(t *testing.T) {
	dst := filepath.Join(t.TempDir(), "dst")
	if err := os.Mkdir(dst, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, entries := range [][]tar.Header{
		{{Name: "src/a", Typeflag: tar.TypeReg}, {Name: "src/b", Linkname: "src/a", Typeflag: tar.TypeLink}, {Name: "src/kept", Linkname: "src/a", Typeflag: tar.TypeLink}},
		{{Name: "src/a", Typeflag: tar.TypeReg}, {Name: "src/b", Typeflag: tar.TypeReg}},
	} {
		if err := tarIn(archive(t, append([]tar.Header{{Name: "src/", Typeflag: tar.TypeDir}}, entries...)...), "src", dst); err != nil {
			t.Fatal(err)
		}
	}
	var inodes []uint64
	for _, name := range []string{"a", "b", "kept"} {
		info, err := os.Stat(filepath.Join(dst, "src", name))
		if err != nil {
			t.Fatal(err)
		}
		inodes = append(inodes, info.Sys().(*syscall.Stat_t).Ino)
	}
	if inodes[0] == inodes[1] || inodes[0] == inodes[2] || inodes[1] == inodes[2] {
		t.Errorf("written through a link: %v", inodes)
	}
}

// TestHostileTar: no name and no link of an archive reaches files beside the destination.
func TestHostileTar(t *testing.T) {
	dir := tar.Header{Name: "src/", Typeflag: tar.TypeDir}
	for name, entries := range map[string][]tar.Header{
		"name":                 {{Name: "../../outside", Typeflag: tar.TypeReg}},
		"name of a sibling":    {dir, {Name: "src/../../secret", Typeflag: tar.TypeReg}},
		"absolute name":        {dir, {Name: "/secret", Typeflag: tar.TypeReg}},
		"hard link":            {dir, {Name: "src/x", Linkname: "../../../etc/passwd", Typeflag: tar.TypeLink}},
		"absolute hard link":   {dir, {Name: "src/x", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}},
		"hard link to sibling": {dir, {Name: "src/x", Linkname: "src/../../secret", Typeflag: tar.TypeLink}},
		"hard link through a symbolic one": {dir, {Name: "src/up", Linkname: "..", Typeflag: tar.TypeSymlink},
			{Name: "src/x", Linkname: "src/up/secret", Typeflag: tar.TypeLink}},
		"file through a symbolic link to a directory": {dir, {Name: "src/up", Linkname: "..", Typeflag: tar.TypeSymlink}, {Name: "src/up/secret", Typeflag: tar.TypeReg}},
		"the directory is a symbolic link":            {{Name: "src", Linkname: ".", Typeflag: tar.TypeSymlink}, {Name: "src/secret", Typeflag: tar.TypeReg}},
		"the file is a symbolic link":                 {{Name: "src", Linkname: "secret", Typeflag: tar.TypeSymlink}, {Name: "src", Typeflag: tar.TypeReg}},
	} {
		t.Run(name, func(t *testing.T) {
			place := t.TempDir()
			secret := filepath.Join(place, "secret")
			if err := os.WriteFile(secret, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tarIn(archive(t, entries...), "src", filepath.Join(place, "dst")); err == nil {
				t.Error("was unpacked")
			}
			info, err := os.Stat(secret)
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(secret)
			if err != nil || string(text) != "mine" || info.Sys().(*syscall.Stat_t).Nlink != 1 {
				t.Errorf("the file beside has %q and %d names, %v", text, info.Sys().(*syscall.Stat_t).Nlink, err)
			}
		})
	}
}

// TestTarAndLinksHere unpacks into directories that already have links, the user's own or those of an earlier archive.
func TestTarAndLinksHere(t *testing.T) {
	file := []tar.Header{{Name: "src", Typeflag: tar.TypeReg}}
	tree := []tar.Header{{Name: "src/", Typeflag: tar.TypeDir}, {Name: "src/x", Typeflag: tar.TypeReg}}
	for name, test := range map[string]struct {
		link, to string // made first; to is from the place of dst
		entries  []tar.Header
		dst      string
		want     string // an error; "": the file below is there
		file     string
	}{
		"a file replaces a link":                   {"dst", "secret", file, "dst", "", "dst"},
		"a file replaces a link to nothing":        {"dst", "new", file, "dst", "", "dst"},
		"a file replaces a link in DST":            {"in/src", "../secret", file, "in", "", "in/src"},
		"a file replaces a link to a directory":    {"in/src", "../out", file, "in", "", "in/src"},
		"DST is a link to a directory":             {"dst", "out", tree, "dst", "", "out/src/x"},
		"a link to a directory in DST":             {"in/src", "../out", tree, "in", "in/src is a link here, which is followed only if it is DST itself", ""},
		"a link to a directory beside it, in DST":  {"in/src", "beside", tree, "in", "in/src is a link here", ""},
		"a link to nothing, and a directory comes": {"dst", "new", tree, "dst", "dst is a link here", ""},
		"a link below, and a file comes":           {"in/src/x", "../../secret", tree, "in", "", "in/src/x"},
		"a link below, and a file in it comes": {"in/src/x", "../../out", append(tree[:1:1], tar.Header{Name: "src/x/y", Typeflag: tar.TypeReg}), "in",
			"path escapes from parent", ""},
	} {
		t.Run(name, func(t *testing.T) {
			place := t.TempDir()
			at := func(name string) string { return filepath.Join(place, name) }
			err := errors.Join(os.WriteFile(at("secret"), []byte("mine"), 0o600), os.Mkdir(at("out"), 0o755), os.MkdirAll(filepath.Dir(at(test.link)), 0o755),
				os.MkdirAll(at("in/beside"), 0o755), os.Symlink(test.to, at(test.link)))
			if err != nil {
				t.Fatal(err)
			}
			err = tarIn(archive(t, test.entries...), "src", at(test.dst))
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) || test.want == "" && err != nil {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if test.file != "" {
				if info, err := os.Lstat(at(test.file)); err != nil || !info.Mode().IsRegular() {
					t.Errorf("%s is %v, %v", test.file, info, err)
				}
			}
			if text, err := os.ReadFile(at("secret")); err != nil || string(text) != "mine" {
				t.Errorf("the file beside has %q, %v", text, err)
			}
			if _, err := os.Lstat(at("new")); err == nil {
				t.Error("written through a link to nothing")
			}
		})
	}
}

// TestTarOddEntries: what an archive may have besides files and directories.
func TestTarOddEntries(t *testing.T) {
	dir, long := tar.Header{Name: "src/", Typeflag: tar.TypeDir}, strings.Repeat("n", 300)
	for name, test := range map[string]struct {
		entries []tar.Header
		want    string // an error; "": dst/x is a file
		mode    fs.FileMode
		leftOut int
	}{
		"a link in place of the target": {[]tar.Header{{Name: "src", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}}, "the node sent a link in place of src", 0, 0},
		"a hard link in place of it":    {[]tar.Header{{Name: "src", Linkname: "/etc/passwd", Typeflag: tar.TypeLink}}, "src is neither a file nor a directory", 0, 0},
		"a fifo in place of it":         {[]tar.Header{{Name: "src", Typeflag: tar.TypeFifo}}, "src is neither a file nor a directory", 0, 0},
		"a file after the directory":    {[]tar.Header{dir, {Name: "src", Typeflag: tar.TypeReg}}, "src is neither a file nor a directory", 0, 0},
		"a link after the directory":    {[]tar.Header{dir, {Name: "src", Linkname: "/", Typeflag: tar.TypeSymlink}}, "the node sent a link in place of src", 0, 0},
		"no top":                        {[]tar.Header{{Name: "src/x", Typeflag: tar.TypeReg}}, "which is not in src", 0, 0},
		"two tops":                      {[]tar.Header{dir, {Name: "other/x", Typeflag: tar.TypeReg}}, "which is not in src", 0, 0},
		"devices and a pipe": {[]tar.Header{dir, {Name: "src/c", Typeflag: tar.TypeChar}, {Name: "src/b", Typeflag: tar.TypeBlock}, {Name: "src/f", Typeflag: tar.TypeFifo},
			{Name: "src/x", Typeflag: tar.TypeReg}}, "", 0o755, 3},
		"setuid, setgid and sticky":         {[]tar.Header{dir, {Name: "src/x", Mode: 0o7755, Typeflag: tar.TypeReg}}, "", 0o755, 0},
		"a file twice":                      {[]tar.Header{dir, {Name: "src/x", Typeflag: tar.TypeReg}, {Name: "src/x", Typeflag: tar.TypeReg}}, "", 0o755, 0},
		"a file over a link":                {[]tar.Header{dir, {Name: "src/x", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink}, {Name: "src/x", Typeflag: tar.TypeReg}}, "", 0o755, 0},
		"a file where a directory was":      {[]tar.Header{dir, {Name: "src/x/", Typeflag: tar.TypeDir}, {Name: "src/x", Typeflag: tar.TypeReg}}, "file exists", 0, 0},
		"a directory where a file was":      {[]tar.Header{dir, {Name: "src/x", Typeflag: tar.TypeReg}, {Name: "src/x/y/", Typeflag: tar.TypeDir}}, "not a directory", 0, 0},
		"a link where a full directory was": {[]tar.Header{dir, {Name: "src/x/y/", Typeflag: tar.TypeDir}, {Name: "src/x", Linkname: "..", Typeflag: tar.TypeSymlink}}, "directory not empty", 0, 0},
		"a name that is too long":           {[]tar.Header{dir, {Name: "src/" + long, Typeflag: tar.TypeReg}}, "file name too long", 0, 0},
		"a path that is too long":           {[]tar.Header{dir, {Name: "src/" + strings.Repeat("d/", 5000) + "x", Typeflag: tar.TypeReg}}, "d", 0, 0},
		"from a directory by dot":           {[]tar.Header{{Name: "./", Typeflag: tar.TypeDir}, {Name: "./src/", Typeflag: tar.TypeDir}, {Name: "./src/x", Typeflag: tar.TypeReg}, {Name: "./x", Typeflag: tar.TypeReg}}, "", 0o755, 0},
	} {
		t.Run(name, func(t *testing.T) {
			dst := filepath.Join(t.TempDir(), "dst")
			u := newUnpacker("src")
			err := unpack(u, archive(t, test.entries...), dst)
			if test.want != "" {
				if err == nil || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want %q", err, test.want)
				}
				return
			}
			info, lerr := os.Lstat(filepath.Join(dst, "x"))
			if err != nil || lerr != nil || info.Mode() != test.mode&^umask() || len(u.LeftOut) != test.leftOut {
				t.Errorf("%v, %v, %v, left out %q", err, lerr, info, u.LeftOut)
			}
		})
	}
}

// umask is what the system takes from the mode of a new file.
func umask() fs.FileMode {
	old := syscall.Umask(0o22)
	syscall.Umask(old)
	return fs.FileMode(old)
}
