package pack

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// tree makes a directory of files: name -> content. A name that ends in "/" is a directory.
func tree(t testing.TB, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		put(t, filepath.Join(root, name), content, strings.HasSuffix(name, "/"))
	}
	return root
}

func put(t testing.TB, path, content string, dir bool) {
	t.Helper()
	if dir {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// age makes all files old enough for a package of them to be remembered.
func age(t testing.TB, root string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		found, err := walk(t.Context(), source{root: root}, Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(found.files, func(f file) bool { return f.state.young(time.Now()) }) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the files stay young: is the clock right?")
		}
	}
}

func packed(t testing.TB, root string, opts Options) *Package {
	t.Helper()
	if opts.CacheDir == "" {
		opts.CacheDir = t.TempDir()
	}
	pkg, err := WorkingDir(t.Context(), root, opts)
	if err != nil {
		t.Fatal(err)
	}
	return pkg
}

// contentsOf lists a package: name -> mode and content.
func contentsOf(t testing.TB, pkg *Package) map[string]string {
	t.Helper()
	archive, err := zip.OpenReader(pkg.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	got := map[string]string{}
	for _, f := range archive.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name] = fmt.Sprintf("%s %s", f.Mode(), content)
	}
	return got
}

func TestContents(t *testing.T) {
	large := strings.Repeat("0123456789abcdef", largeFile/16+1)
	root := tree(t, map[string]string{
		"main.py": "print()", "run.sh": "#!/bin/sh", "empty": "", "hollow/": "", "päckchen/日本 $(x).txt": "ä",
		"large": large, "data/real/f": "1", ".venv/lib": "x", "sub/__pycache__/m.pyc": "x", ".git/HEAD": "x",
	})
	must(t, os.Chmod(filepath.Join(root, "run.sh"), 0o750))
	must(t, os.Symlink("real", filepath.Join(root, "data", "link")))
	must(t, os.Symlink("../main.py", filepath.Join(root, "data", "main.py")))
	must(t, os.Symlink("nowhere", filepath.Join(root, "broken")))
	must(t, os.Symlink("..", filepath.Join(root, "data", "loop")))
	pkg := packed(t, root, Options{})
	want := map[string]string{
		"main.py": "-rw-r--r-- print()", "run.sh": "-rwxr-x--- #!/bin/sh", "empty": "-rw-r--r-- ", "hollow/": "drwxr-xr-x ",
		"päckchen/日本 $(x).txt": "-rw-r--r-- ä", "large": "-rw-r--r-- " + large,
		"data/real/f": "-rw-r--r-- 1", "data/link/f": "-rw-r--r-- 1", "data/main.py": "-rw-r--r-- print()",
	}
	if diff := cmp.Diff(want, contentsOf(t, pkg)); diff != "" {
		t.Error(diff)
	}
	if pkg.Files != 8 || pkg.Reused {
		t.Errorf("%d files, reused %t", pkg.Files, pkg.Reused)
	}
	info, err := os.Stat(pkg.Path)
	if err != nil || info.Size() != pkg.Size {
		t.Errorf("the file has %v bytes (%v), the package %d", info, err, pkg.Size)
	}
}

func TestNameIsContent(t *testing.T) {
	files := map[string]string{"a.py": "1", "b/c.py": "2", "d/": ""}
	first := packed(t, tree(t, files), Options{})
	root := tree(t, files)
	second := packed(t, root, Options{})
	if first.URI != second.URI {
		t.Errorf("the same files are %s and %s", first.URI, second.URI)
	}
	one, _ := os.ReadFile(first.Path)
	two, _ := os.ReadFile(second.Path)
	if !bytes.Equal(one, two) {
		t.Error("the same files give different bytes")
	}
	seen := map[string]string{first.URI: "the original"}
	for change, apply := range map[string]func() error{
		"content":         func() error { return os.WriteFile(filepath.Join(root, "a.py"), []byte("3"), 0o644) },
		"mode":            func() error { return os.Chmod(filepath.Join(root, "a.py"), 0o755) },
		"name":            func() error { return os.Rename(filepath.Join(root, "b", "c.py"), filepath.Join(root, "b", "e.py")) },
		"empty directory": func() error { return os.Remove(filepath.Join(root, "d")) },
	} {
		must(t, apply())
		pkg := packed(t, root, Options{})
		if seen[pkg.URI] != "" {
			t.Errorf("after a change of %s it is %s, as after %s", change, pkg.URI, seen[pkg.URI])
		}
		seen[pkg.URI] = change
	}
}

func TestUnchangedIsReused(t *testing.T) {
	root := tree(t, map[string]string{"a.py": "1", "b/c.py": "2"})
	age(t, root)
	opts := Options{CacheDir: t.TempDir()}
	first := packed(t, root, opts)
	again := packed(t, root, opts)
	if !again.Reused || again.URI != first.URI || again.Files != 2 || again.Size != first.Size {
		t.Errorf("unchanged: %+v after %+v", again, first)
	}
	// The same size and modification time: only the change time differs.
	path := filepath.Join(root, "a.py")
	info, err := os.Stat(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte("3"), 0o644))
	must(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
	if changed := packed(t, root, opts); changed.Reused || changed.URI == first.URI {
		t.Errorf("changed without a trace in size and time: %+v", changed)
	}
	age(t, root)
	packed(t, root, opts)
	must(t, os.Remove(packed(t, root, opts).Path))
	if lost := packed(t, root, opts); lost.Reused {
		t.Error("a package was reused that is not there")
	}
}

// TestDamagedIsNotReused: a damaged package in the cache is made again, and is good from then on.
func TestDamagedIsNotReused(t *testing.T) {
	root := tree(t, map[string]string{"a.py": strings.Repeat("print(1)\n", 100), "b.py": "2"})
	age(t, root)
	opts := Options{CacheDir: t.TempDir()}
	first := packed(t, root, opts)
	good, err := os.ReadFile(first.Path)
	must(t, err)
	flipped := bytes.Clone(good)
	flipped[len(flipped)/2] ^= 1
	for name, damaged := range map[string][]byte{"truncated": good[:len(good)/2], "empty": nil, "one bit": flipped, "longer": append(bytes.Clone(good), 0)} {
		must(t, os.WriteFile(first.Path, damaged, 0o600))
		again := packed(t, root, opts)
		content, err := os.ReadFile(again.Path)
		must(t, err)
		if again.Reused || again.URI != first.URI || !bytes.Equal(content, good) || again.Size != int64(len(good)) {
			t.Errorf("%s: %+v", name, again)
		}
		if once := packed(t, root, opts); !once.Reused || once.Size != int64(len(good)) {
			t.Errorf("%s: mended, but not taken: %+v", name, once)
		}
	}
}

// TestYoungIsNotRemembered: a file changed at the moment of packing might change again in the same clock tick.
func TestYoungIsNotRemembered(t *testing.T) {
	root := tree(t, map[string]string{"a.py": "1"})
	ahead := time.Now().Add(time.Hour)
	must(t, os.Chtimes(filepath.Join(root, "a.py"), ahead, ahead))
	opts := Options{CacheDir: t.TempDir()}
	packed(t, root, opts)
	if packed(t, root, opts).Reused {
		t.Error("a package of a file from the future was reused")
	}
}

func TestPatterns(t *testing.T) {
	root := tree(t, map[string]string{
		".rayignore": "*.bin\n!keep.bin\n", ".gitignore": "secret\n", "a.bin": "", "keep.bin": "", "secret": "", "b.py": "",
		"sub/.gitignore": "*.log\n!important.log\n", "sub/x.log": "", "sub/important.log": "", "x.log": "", "excluded/f": "", "venv/f": "",
	})
	names := func(opts Options) []string {
		var got []string
		for name := range contentsOf(t, packed(t, root, opts)) {
			got = append(got, name)
		}
		slices.Sort(got)
		return got
	}
	want := []string{".gitignore", ".rayignore", "b.py", "keep.bin", "sub/.gitignore", "sub/important.log", "venv/f", "x.log"}
	if diff := cmp.Diff(want, names(Options{Excludes: []string{"/excluded/", "!venv"}})); diff != "" {
		t.Error(diff)
	}
	if got := names(Options{NoGitignore: true}); !slices.Contains(got, "secret") || slices.Contains(got, "a.bin") {
		t.Errorf("without .gitignore: %v", got)
	}
}

// TestNames: all names that Ray cannot unpack are told at once, once each; excluded ones do not matter.
func TestNames(t *testing.T) {
	root := tree(t, map[string]string{"a\\b": "", "good": "", "sub/\xff": "", "sub\\c/in\\side": "", "x\\y.log": ""})
	opts := Options{CacheDir: t.TempDir(), Excludes: []string{"*.log"}}
	var names *NamesError
	if _, err := WorkingDir(t.Context(), root, opts); !errors.As(err, &names) || names.List() != `"a\\b", "sub/\xff", "sub\\c"` {
		t.Errorf("%v", err)
	}
	if _, err := Module(t.Context(), filepath.Join(root, "sub\\c"), opts); !errors.As(err, &names) || names.Names[0] != `sub\c` {
		t.Errorf("the directory itself: %v", err)
	}
	if list := (&NamesError{make([]string, 102)}).List(); !strings.HasSuffix(list, `"", "" and 2 more`) {
		t.Error(list)
	}
	must(t, os.RemoveAll(filepath.Join(root, "sub")))
	opts.Excludes = append(opts.Excludes, `*\\*`)
	if got := contentsOf(t, packed(t, root, opts)); len(got) != 1 {
		t.Errorf("excluded: %v", got)
	}
}

func TestModule(t *testing.T) {
	root := tree(t, map[string]string{"lib/__init__.py": "1", "lib/m/n.py": "2", "single.py": "3", "other.py": "4", "x.txt": "", "w-1-py3-none-any.whl": "5"})
	opts := Options{CacheDir: t.TempDir()}
	pkg, err := Module(t.Context(), filepath.Join(root, "lib"), opts)
	must(t, err)
	if diff := cmp.Diff(map[string]string{"lib/__init__.py": "-rw-r--r-- 1", "lib/m/n.py": "-rw-r--r-- 2"}, contentsOf(t, pkg)); diff != "" {
		t.Error(diff)
	}
	pkg, err = Module(t.Context(), filepath.Join(root, "single.py"), opts)
	must(t, err)
	if diff := cmp.Diff(map[string]string{"single.py": "-rw-r--r-- 3"}, contentsOf(t, pkg)); diff != "" {
		t.Error(diff)
	}
	pkg, err = Module(t.Context(), filepath.Join(root, "w-1-py3-none-any.whl"), opts)
	must(t, err)
	if pkg.URI != "gcs://w-1-py3-none-any.whl" {
		t.Error(pkg.URI)
	}
	if _, err := Module(t.Context(), filepath.Join(root, "x.txt"), opts); err == nil {
		t.Error("a text file was packed as a module")
	}
}

func TestErrors(t *testing.T) {
	root := tree(t, map[string]string{"big/data": strings.Repeat("x", 300), "a.py": "1"})
	_, err := WorkingDir(t.Context(), root, Options{CacheDir: t.TempDir(), MaxSize: 200})
	if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "big/data") {
		t.Error(err)
	}
	if _, err := WorkingDir(t.Context(), filepath.Join(root, "a.py"), Options{}); err == nil {
		t.Error("a file was packed as a directory")
	}
	if _, err := WorkingDir(t.Context(), filepath.Join(root, "none"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	put(t, filepath.Join(root, `back\slash`), "", false)
	if _, err := WorkingDir(t.Context(), root, Options{CacheDir: t.TempDir()}); err == nil || !strings.Contains(err.Error(), "back") {
		t.Error(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := WorkingDir(canceled, root, Options{CacheDir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := readable(&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}); !strings.Contains(err.Error(), ".rayignore") {
		t.Error(err)
	}
}

// TestVanishedAndChanged packs files that changed after the walk.
func TestVanishedAndChanged(t *testing.T) {
	root := tree(t, map[string]string{"a": "1", "b": "2", "c": "3", "large": strings.Repeat("x", largeFile+1)})
	opts := Options{Logger: slog.New(slog.DiscardHandler), MaxSize: DefaultMaxSize}
	found, err := walk(t.Context(), source{root: root}, opts)
	must(t, err)
	must(t, os.Remove(filepath.Join(root, "a")))
	must(t, os.Remove(filepath.Join(root, "large")))
	put(t, filepath.Join(root, "b"), "longer", false)
	pkg, stable, err := write(t.Context(), found.files, t.TempDir(), opts)
	must(t, err)
	if stable {
		t.Error("it would be remembered")
	}
	if diff := cmp.Diff(map[string]string{"b": "-rw-r--r-- l", "c": "-rw-r--r-- 3"}, contentsOf(t, pkg)); diff != "" {
		t.Error(diff)
	}
}

func TestProgress(t *testing.T) {
	root := tree(t, map[string]string{"a": "12", "b": "345"})
	var last Progress
	packed(t, root, Options{Progress: func(p Progress) { last = p }})
	if want := (Progress{Files: 2, TotalFiles: 2, Bytes: 5, TotalBytes: 5}); last != want {
		t.Errorf("%+v", last)
	}
}

func TestIsRemote(t *testing.T) {
	for path, want := range map[string]bool{"s3://b/x.zip": true, "https://h/x.zip": true, "gcs://_ray_pkg_1.zip": true, ".": false, "/a/b": false, "a:b": false, "": false} {
		if IsRemote(path) != want {
			t.Errorf("IsRemote(%q) is %t", path, !want)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestArchive: a zip file is a package as it is; what Ray could not unpack is refused.
func TestArchive(t *testing.T) {
	made := packed(t, tree(t, map[string]string{"a.py": "print(1)\n", "d/b": "2"}), Options{})
	dir := t.TempDir()
	file := filepath.Join(dir, "code.ZIP")
	data, err := os.ReadFile(made.Path)
	if err != nil {
		t.Fatal(err)
	}
	put(t, file, string(data), false)
	pkg := packed(t, file, Options{Excludes: []string{"*"}})
	if pkg.Path != file || pkg.Size != int64(len(data)) || pkg.Files != 2 || pkg.Bytes != 10 || !strings.HasPrefix(pkg.URI, "gcs://_ray_pkg_") || !strings.HasSuffix(pkg.URI, ".zip") {
		t.Errorf("%+v", pkg)
	}
	if again := packed(t, file, Options{}); again.URI != pkg.URI || again.URI == made.URI {
		t.Errorf("%q and %q", again.URI, pkg.URI)
	}
	if _, err := WorkingDir(t.Context(), file, Options{MaxSize: 10}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	put(t, filepath.Join(dir, "broken.zip"), string(data[:len(data)-30]), false)
	if _, err := WorkingDir(t.Context(), filepath.Join(dir, "broken.zip"), Options{}); !errors.Is(err, ErrNotZip) {
		t.Errorf("broken: %v", err)
	}
	put(t, filepath.Join(dir, "code.tar"), "x", false)
	if _, err := WorkingDir(t.Context(), filepath.Join(dir, "code.tar"), Options{}); !errors.Is(err, ErrNotDirectory) {
		t.Errorf("a file: %v", err)
	}
	if _, err := WorkingDir(t.Context(), filepath.Join(dir, "none.zip"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	put(t, filepath.Join(dir, "dir.zip", "a"), "x", false)
	if pkg := packed(t, filepath.Join(dir, "dir.zip"), Options{}); pkg.Files != 1 {
		t.Errorf("a directory of that name: %+v", pkg)
	}
}
