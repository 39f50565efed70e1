package nodefiles

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The words of which FuzzUnpackSequence makes archives. A byte chooses one of each.
var (
	fuzzTypes = []byte{tar.TypeReg, tar.TypeDir, tar.TypeSymlink, tar.TypeLink, tar.TypeFifo, tar.TypeChar}
	fuzzNames = []string{"src", "src/", ".", "./", "src/a", "src/a/b", "src/a/b/c", "./a", "./src", "./src/a", "src/..", "src/../..", "../secret", "..", "/secret",
		"src/a/../../secret", "src/" + strings.Repeat("n", 300), "a", "a/b", "secret", "out/f", "src//a", "src/./b", "src/a/secret", "src/out/f"}
	fuzzLinks = []string{".", "..", "../..", "../../..", "../secret", "../../secret", "../out", "../../out", "secret", "out", "a", "b", "src/a", "src/a/b", "/", "/proc/self/cwd",
		"../dst", "../dst/src", "..//out/f", "../link", "src/../../secret", "../../out/f", "./a", ""}
	fuzzMembers = []string{"src", ".", "a", ".."} // what the user copies
	fuzzTargets = []string{"dst", "dst/", "dst/src", "dst/src/a", "dst/src/", "dst/new/", "dst/a"}
)

// FuzzUnpackSequence unpacks a sequence of archives of a hostile node into one destination, and then one of any bytes: nothing beside the destination is
// made, changed or removed. Each archive is two bytes, of what the user copies and where to, then four of each entry, and a 255.
func FuzzUnpackSequence(f *testing.F) {
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, program, last []byte) {
		place := t.TempDir()
		at := func(name string) string { return filepath.Join(place, name) }
		for _, err := range []error{os.WriteFile(at("secret"), []byte("mine"), 0o640), os.Mkdir(at("out"), 0o751), os.WriteFile(at("out/f"), []byte("mine, too"), 0o604),
			os.Symlink("secret", at("link")), os.Symlink("out", at("dlink")), os.Mkdir(at("dst"), 0o755)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		before := outside(t, place)
		for _, one := range bytes.Split(program, []byte{255}) {
			if len(one) < 2 {
				continue
			}
			unpackAt(place, pick(fuzzMembers, one[0]), pick(fuzzTargets, one[1]), fuzzArchive(one[2:]))
			if diff := cmp.Diff(before, outside(t, place)); diff != "" {
				t.Fatalf("%s to %s (-before +after):\n%s", pick(fuzzMembers, one[0]), pick(fuzzTargets, one[1]), diff)
			}
		}
		unpackAt(place, "src", "dst", bytes.NewReader(last))
		if diff := cmp.Diff(before, outside(t, place)); diff != "" {
			t.Fatalf("the last (-before +after):\n%s", diff)
		}
	})
}

func pick[T any](of []T, b byte) T { return of[int(b)%len(of)] }

// unpackAt unpacks to a target that leads through no link to a directory: the user who names one means that directory.
func unpackAt(place, member, target string, r io.Reader) {
	full := filepath.Join(place, target)
	real, err := filepath.EvalSymlinks(filepath.Dir(full))
	if err != nil || real != filepath.Dir(full) {
		return
	}
	if info, err := os.Stat(full); err == nil && info.IsDir() {
		if real, err := filepath.EvalSymlinks(full); err != nil || real != full {
			return
		}
	}
	if strings.HasSuffix(target, "/") {
		full += "/"
	}
	_ = tarIn(r, member, full)
}

// fuzzArchive has an entry of each four bytes: type, name, link, mode.
func fuzzArchive(program []byte) io.Reader {
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	for ; len(program) >= 4; program = program[4:] {
		h := &tar.Header{Typeflag: pick(fuzzTypes, program[0]), Name: pick(fuzzNames, program[1]), Linkname: pick(fuzzLinks, program[2]), Mode: int64(program[3]) << 4}
		switch h.Typeflag {
		case tar.TypeReg:
			h.Size, h.Linkname = 7, ""
		case tar.TypeDir, tar.TypeFifo, tar.TypeChar:
			h.Linkname = ""
		}
		if w.WriteHeader(h) == nil && h.Size > 0 {
			_, _ = io.WriteString(w, "hostile")
		}
	}
	_ = w.Close()
	return b
}

// outside describes everything but what is below the destination.
func outside(t *testing.T, place string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(place, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st, rel := info.Sys().(*syscall.Stat_t), strings.TrimPrefix(p, place)
		if rel == "/dst" {
			all[rel] = fmt.Sprint(info.Mode(), st.Ino)
			return fs.SkipDir
		}
		content := ""
		if info.Mode().IsRegular() {
			text, err := os.ReadFile(p)
			if content = string(text); err != nil {
				return err
			}
		}
		to, _ := os.Readlink(p) // "" of what is no link
		all[rel] = fmt.Sprint(info.Mode(), " ", st.Ino, " ", st.Nlink, " ", info.ModTime(), " ", to, " ", content)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
