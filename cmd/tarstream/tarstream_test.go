package tarstream

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
)

func tarOut(src, name string, w io.Writer) error {
	return NewPacker(w, &launcher.Meter{}).Pack(src, name)
}

func tarIn(r io.Reader, name, dst string) error { return NewUnpacker(name).unpack(r, dst) }

// archive contains these entries; files have the content "hostile".
func archive(t *testing.T, entries ...tar.Header) *bytes.Buffer {
	t.Helper()
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	for _, h := range entries {
		content := ""
		if h.Mode = 0o755; h.Typeflag == tar.TypeReg {
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

// TestTarRoundTrip copies a tree, and replaces an existing link as it would a file.
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
	link := filepath.Join(t.TempDir(), "link")
	for range 2 {
		if err := tarIn(archive(t, tar.Header{Name: "src", Typeflag: tar.TypeSymlink, Linkname: "in ner"}), "src", link); err != nil {
			t.Error(err)
		}
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
				u := NewUnpacker(test.member)
				if err := u.unpack(bytes.NewReader(packed), dst); err != nil {
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

// TestTarOverLinks: unpacking over the linked names of an earlier copy separates them.
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
	place := t.TempDir() // within a tree, a file replaces a link in its place
	dst, secret := filepath.Join(place, "dst"), filepath.Join(place, "secret")
	through := archive(t, dir, tar.Header{Name: "src/x", Linkname: "../secret", Typeflag: tar.TypeSymlink}, tar.Header{Name: "src/x", Typeflag: tar.TypeReg})
	if err := tarIn(through, "src", dst); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(secret); err == nil {
		t.Error("written through a symbolic link")
	}
}
