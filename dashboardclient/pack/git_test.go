package pack

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// git runs git in a directory, without the configuration of whoever runs the test.
func git(t testing.TB, dir string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main"}, args...)...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return string(out)
}

// clone makes a repository of which everything in tracked is committed, also what a pattern matches; the other files come later.
func clone(t testing.TB, tracked, others map[string]string) string {
	t.Helper()
	t.Setenv("GIT_CONFIG_GLOBAL", os.DevNull)
	t.Setenv("GIT_CONFIG_NOSYSTEM", "1")
	root := tree(t, tracked)
	git(t, root, "init", "-q")
	git(t, root, "add", "-f", ".")
	git(t, root, "commit", "-q", "--allow-empty", "-m", "x")
	for name, content := range others {
		put(t, filepath.Join(root, name), content, strings.HasSuffix(name, "/"))
	}
	return root
}

// namesOf lists a package; only is a prefix that the names have, and is cut off.
func namesOf(t testing.TB, pkg *Package) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(contentsOf(t, pkg)))
}

// wantPacked compares the files of a package, written as "a b/c".
func wantPacked(t *testing.T, pkg *Package, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Fields(want), namesOf(t, pkg)); diff != "" {
		t.Errorf("packed (-want +got):\n%s", diff)
	}
}

// wantNotes: one note for each text, which it has in it.
func wantNotes(t *testing.T, pkg *Package, texts ...string) {
	t.Helper()
	if len(pkg.Notes) != len(texts) {
		t.Fatalf("notes %q, want %d", pkg.Notes, len(texts))
	}
	for i, text := range texts {
		if !strings.Contains(pkg.Notes[i], text) {
			t.Errorf("note %q has no %q", pkg.Notes[i], text)
		}
	}
}

// TestGitLists: what git tracks or would add is packed, by all of git's files of patterns.
func TestGitLists(t *testing.T) {
	root := clone(t, map[string]string{
		".gitignore": "*.ckpt\nout/\n", "tracked.ckpt": "1", "main.py": "", "gone.py": "", "top.py": "", "out/tracked": "",
		"proj/.gitignore": "*.log\n!keep.log\n", "proj/a.py": "", "proj/tracked.log": "", "proj/gone": "", "proj/was/file": "", "proj/venv/tracked": "",
	}, map[string]string{
		"x.ckpt": "", "proj/x.ckpt": "", "proj/x.log": "", "proj/keep.log": "", "proj/new.py": "", "proj/private": "", "proj/mine": "", "proj/hollow/": "", "out/x": "", "proj/out/x": "",
	})
	proj := filepath.Join(root, "proj")
	must(t, os.Remove(filepath.Join(proj, "gone")))
	must(t, os.RemoveAll(filepath.Join(proj, "was")))
	must(t, os.WriteFile(filepath.Join(proj, "was"), nil, 0o644)) // a file in the place of a directory
	put(t, filepath.Join(root, ".git", "info", "exclude"), "private\n", false)
	global := filepath.Join(t.TempDir(), "config")
	put(t, global, "[core]\n\texcludesFile = "+filepath.Join(filepath.Dir(global), "excludes")+"\n", false)
	put(t, filepath.Join(filepath.Dir(global), "excludes"), "mine\n", false)
	t.Setenv("GIT_CONFIG_GLOBAL", global)
	pkg := packed(t, proj, Options{})
	wantPacked(t, pkg, ".gitignore a.py keep.log new.py tracked.log was")
	wantNotes(t, pkg)
	if diff := cmp.Diff([]LeftOut{{Name: "mine", Count: 1}, {Name: "out/", Count: 1}, {Name: "private", Count: 1}, {Name: "x.ckpt", Count: 1}, {Name: "x.log", Count: 1}}, pkg.LeftOut, cmpopts.IgnoreFields(LeftOut{}, "More")); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	wantPacked(t, packed(t, proj, Options{NoGitignore: true}), ".gitignore a.py hollow/ keep.log mine new.py out/x private tracked.log was x.ckpt x.log")

	link := filepath.Join(t.TempDir(), "link")
	must(t, os.Symlink(proj, link))
	if again := packed(t, link, Options{}); again.URI != pkg.URI {
		t.Errorf("through a link: %s", again.URI)
	}
	if module, err := Module(t.Context(), proj, Options{CacheDir: t.TempDir()}); err != nil || !slices.Contains(namesOf(t, module), "proj/tracked.log") {
		t.Errorf("as a module: %v", err)
	}
}

// TestSameNameWithoutGit: the same files have the same URI, whoever lists them.
func TestSameNameWithoutGit(t *testing.T) {
	files := map[string]string{"a/x": "1", "a-b": "2", "a.py": "3", "a/b/c": "4", "a/b-c": "5", "ä": "6", "A": "7", "a!": "8", "a/b.c/d": "9", ".gitignore": "*.bin\n", ".rayignore": "!*.bin\n", "a.bin": "10", "a/x.bin": "11"}
	with, without := packed(t, clone(t, nil, files), Options{}), packed(t, tree(t, files), Options{})
	if with.URI != without.URI {
		t.Errorf("%s and %s: %q and %q", with.URI, without.URI, namesOf(t, with), namesOf(t, without))
	}
	if !slices.IsSortedFunc([]string{"a/b", "a/b/c", "a/b-c", "a/c", "a!", "a-b", "a.py"}, compareNames) {
		t.Error("another order than a walk has, and so another URI than before")
	}
}

// TestWithoutGit: git's files of patterns are read by our own matcher where no git is in PATH.
func TestWithoutGit(t *testing.T) {
	root := clone(t, map[string]string{".gitignore": "*.ckpt\n", "tracked.ckpt": "", "a.py": ""}, map[string]string{"x.ckpt": "", "y.ckpt": "", "data/z": "", "private": ""})
	put(t, filepath.Join(root, ".git", "info", "exclude"), "private\ndata/\n", false)
	t.Setenv("PATH", t.TempDir())
	pkg := packed(t, root, Options{})
	wantPacked(t, pkg, ".gitignore a.py")
	wantNotes(t, pkg)
	if diff := cmp.Diff([]LeftOut{{Name: "*.ckpt", Count: 3}, {Name: "data/", Count: 1}, {Name: "private", Count: 1}}, pkg.LeftOut, cmpopts.IgnoreFields(LeftOut{}, "More")); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
}

// TestGitRefuses: our own matcher packs, and a note has git's reason.
func TestGitRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(t *testing.T, root string)
		note   []string
	}{
		"safe.directory": {func(t *testing.T, _ string) { t.Setenv("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1") }, []string{"match; `git config --global --add safe.directory /"}},
		"no index":       {func(t *testing.T, root string) { put(t, filepath.Join(root, ".git", "index"), "x", false) }, []string{"index file smaller than expected"}},
		"bare":           {func(t *testing.T, root string) { git(t, root, "config", "core.bare", "true") }, []string{"must be run in a work tree"}},
		"no repository":  {func(t *testing.T, root string) { must(t, os.RemoveAll(filepath.Join(root, ".git", "objects"))) }, nil},
		"a ceiling":      {func(t *testing.T, root string) { t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(root)) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := clone(t, map[string]string{".gitignore": "*.ckpt\n", "proj/tracked.ckpt": "", "proj/a.py": ""}, map[string]string{"proj/x.ckpt": ""})
			dir := root
			want := ".gitignore proj/a.py"
			if name == "a ceiling" {
				root, dir, want = filepath.Join(root, "proj"), filepath.Join(root, "proj"), "a.py tracked.ckpt x.ckpt"
			}
			c.damage(t, root)
			pkg := packed(t, dir, Options{})
			wantPacked(t, pkg, want)
			wantNotes(t, pkg, c.note...)
		})
	}
}

// TestGitOfTheDirectory: in a hook, and for some users always, variables name another repository.
func TestGitOfTheDirectory(t *testing.T) {
	other := clone(t, map[string]string{"other": ""}, nil)
	root := clone(t, map[string]string{".gitignore": "x\ny\n", "a.py": "", "y": ""}, map[string]string{"x": ""})
	t.Setenv("GIT_DIR", filepath.Join(other, ".git"))
	t.Setenv("GIT_WORK_TREE", root)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(other, ".git", "index"))
	pkg := packed(t, root, Options{})
	wantPacked(t, pkg, ".gitignore a.py y")
	wantNotes(t, pkg)
	bare := filepath.Join(t.TempDir(), "bare")
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"} {
		must(t, os.Unsetenv(name)) // t.Setenv restores it
	}
	git(t, root, "init", "-q", "--bare", bare)
	if pkg := packed(t, bare, Options{}); !slices.Contains(namesOf(t, pkg), "HEAD") || len(pkg.Notes) > 0 {
		t.Errorf("a bare repository is a directory like others: %v", pkg.Notes)
	}
}

// TestIgnoredDirectoryItself: what git ignores as a whole was named by the user.
func TestIgnoredDirectoryItself(t *testing.T) {
	root := clone(t, map[string]string{".gitignore": "scratch/\n*.ckpt\n"}, map[string]string{"scratch/a.py": "", "scratch/x.ckpt": "", "scratch/y.log": "", "scratch/.gitignore": "*.log\n"})
	pkg := packed(t, filepath.Join(root, "scratch"), Options{})
	wantPacked(t, pkg, ".gitignore a.py x.ckpt")
	wantNotes(t, pkg, "git ignores all that is in")
}

// TestRepositoriesInside: submodules, other repositories, linked work trees and links are listed by the repository that they are in.
func TestRepositoriesInside(t *testing.T) {
	library := clone(t, map[string]string{".gitignore": "*.so\n", "lib.py": "", "tracked.so": ""}, nil)
	root := clone(t, map[string]string{".gitignore": "ignored/\n*.log\n", "a.py": "", "hidden/x.py": "", "shown/s.py": ""}, map[string]string{"ignored/x": ""})
	git(t, root, "submodule", "--quiet", "add", library, "sub")
	git(t, root, "submodule", "--quiet", "add", library, "empty")
	git(t, root, "submodule", "--quiet", "deinit", "-f", "empty")
	put(t, filepath.Join(root, "sub", "x.so"), "", false)
	put(t, filepath.Join(root, "sub", "x.log"), "", false) // the outer pattern does not count, as for git
	git(t, root, "clone", "-q", library, "nested")
	put(t, filepath.Join(root, "nested", "x.so"), "", false)
	put(t, filepath.Join(root, "nested", "new.py"), "", false)
	git(t, root, "init", "-q", "young")
	put(t, filepath.Join(root, "young", "y.py"), "", false)
	must(t, os.Symlink(library, filepath.Join(root, "link")))
	must(t, os.Symlink("..", filepath.Join(root, "sub", "loop")))
	must(t, os.Symlink(".", filepath.Join(root, "shown", "loop")))
	pkg := packed(t, root, Options{Excludes: []string{"link/.gitignore", "/nested/tracked.so"}})
	wantPacked(t, pkg, ".gitignore .gitmodules a.py empty/ hidden/x.py link/lib.py link/tracked.so nested/.gitignore nested/lib.py nested/new.py "+
		"shown/s.py sub/.gitignore sub/lib.py sub/tracked.so sub/x.log young/y.py")
	wantNotes(t, pkg, "the submodule empty is empty: `git submodule update --init`")

	git(t, root, "add", "link", "nested")
	git(t, root, "commit", "-q", "-m", "y")
	linked := filepath.Join(t.TempDir(), "linked")
	git(t, root, "worktree", "add", "-q", linked)
	put(t, filepath.Join(linked, "x.log"), "", false)
	put(t, filepath.Join(linked, "new.py"), "", false)
	wantPacked(t, packed(t, linked, Options{}), ".gitignore .gitmodules a.py empty/ hidden/x.py link/.gitignore link/lib.py link/tracked.so nested/ new.py shown/s.py sub/")
	git(t, linked, "sparse-checkout", "set", "--sparse-index", "shown")
	wantPacked(t, packed(t, linked, Options{}), ".gitignore .gitmodules a.py empty/ link/.gitignore link/lib.py link/tracked.so nested/ new.py shown/s.py sub/")

	workspace := filepath.Dir(root) // is in no repository
	must(t, os.Rename(root, filepath.Join(workspace, "clone")))
	names := namesOf(t, packed(t, workspace, Options{}))
	if !slices.Contains(names, "clone/sub/tracked.so") || slices.Contains(names, "clone/nested/x.so") || slices.Contains(names, "clone/ignored/x") {
		t.Errorf("the directory above: %q", names)
	}
}

// TestExcludesComeAfterGits: the excludes and .rayignore come after git's patterns.
func TestExcludesComeAfterGits(t *testing.T) {
	tracked := map[string]string{".gitignore": "*.bin\ndata/\nruns/\nparts/*\n", "a.py": "", "cut.py": "", "runs/tracked": ""}
	others := map[string]string{
		"keep.bin": "", "x.bin": "", "data/model.pt": "", "data/x.bin": "", "data/deep/y": "", "data/deep/z": "", "runs/1": "", "runs/2/x": "", "parts/x": "", "sub/keep.bin": "", "venv/lib": "",
	}
	for name, c := range map[string]struct {
		rayignore   string
		excludes    []string
		want        string
		ineffective []string
	}{
		"a file":                      {"!keep.bin\n", nil, "a.py cut.py keep.bin runs/tracked sub/keep.bin", nil},
		"by job.excludes":             {"", []string{"!/keep.bin"}, "a.py cut.py keep.bin runs/tracked", nil},
		"excluded again":              {"!keep.bin\n", []string{"/sub"}, "a.py cut.py keep.bin runs/tracked", nil},
		"a directory":                 {"!data\ndata/deep/z\n", nil, "a.py cut.py data/deep/y data/model.pt data/x.bin runs/tracked", nil},
		"one file of a directory":     {"", []string{"!data/model.pt"}, "a.py cut.py data/model.pt runs/tracked", nil},
		"deep in a directory":         {"!/data/d*/y\n", nil, "a.py cut.py data/deep/y runs/tracked", nil},
		"with tracked files":          {"!runs\n", nil, "a.py cut.py runs/1 runs/2/x runs/tracked", nil},
		"what is left out by default": {"", []string{"!venv"}, "a.py cut.py runs/tracked venv/lib", nil},
		"no pattern of it":            {"!parts\n", nil, "a.py cut.py runs/tracked", []string{"!parts of .rayignore takes nothing back"}},
		"names only":                  {"!model.pt\n", nil, "a.py cut.py runs/tracked", []string{"!model.pt of .rayignore"}},
		"a directory above":           {"*.py\n!a.py\n", []string{"runs", "!runs/tracked", "!nothing"}, "a.py", []string{"!runs/tracked of the excludes", "!nothing of the excludes"}},
		"tracked files are excluded":  {"cut.py\n", []string{"runs"}, "a.py", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := clone(t, tracked, others)
			put(t, filepath.Join(root, ".rayignore"), c.rayignore, false)
			want := strings.Join(append([]string{".gitignore", ".rayignore"}, strings.Fields(c.want)...), " ")
			pkg := packed(t, root, Options{Excludes: c.excludes})
			wantPacked(t, pkg, want)
			wantNotes(t, pkg, c.ineffective...)
			// Our own matcher differs only in tracked files that a pattern matches.
			t.Setenv("PATH", t.TempDir())
			alone := packed(t, root, Options{Excludes: c.excludes})
			if name != "with tracked files" {
				want = strings.Replace(want, " runs/tracked", "", 1)
			}
			wantPacked(t, alone, want)
			wantNotes(t, alone, c.ineffective...)
		})
	}
}

// TestOddNames: names that git takes for something else in other commands, or quotes.
func TestOddNames(t *testing.T) {
	root := clone(t, map[string]string{".gitignore": "x\n:!odd/\n", ":!odd/tracked": "", "ä\n\"'": "", "-z": ""}, map[string]string{":!odd/a": "", "new  name": "", "*": ""})
	t.Setenv("GIT_LITERAL_PATHSPECS", "1")
	pkg := packed(t, root, Options{Excludes: []string{"!:!odd"}})
	if diff := cmp.Diff([]string{"*", "-z", ".gitignore", ":!odd/a", ":!odd/tracked", "new  name", "ä\n\"'"}, namesOf(t, pkg)); diff != "" {
		t.Error(diff)
	}
	wantNotes(t, pkg)
}

// TestNestedRayignore: a .rayignore in a directory counts there, also if git ignores it.
func TestNestedRayignore(t *testing.T) {
	root := clone(t, map[string]string{".gitignore": ".rayignore\n*.bin\n", "sub/a.py": "", "sub/b.py": ""}, map[string]string{"sub/.rayignore": "/b.py\n!x.bin\n", "sub/x.bin": "", "x.bin": ""})
	pkg := packed(t, root, Options{})
	wantPacked(t, pkg, ".gitignore sub/a.py sub/x.bin")
	wantNotes(t, pkg)
}

// TestGitDirectory: "!.git" sends the repository itself.
func TestGitDirectory(t *testing.T) {
	root := clone(t, map[string]string{"a.py": ""}, nil)
	names := namesOf(t, packed(t, root, Options{Excludes: []string{"!.git"}}))
	if !slices.Contains(names, ".git/HEAD") || !slices.Contains(names, "a.py") {
		t.Errorf("%q", names)
	}
}

// TestNamesAboveAreNoNames: the excludes are for what is below the directory.
func TestNamesAboveAreNoNames(t *testing.T) {
	root := clone(t, map[string]string{".gitignore": "*.log\n"}, map[string]string{"venv/proj/x.log": "", "venv/proj/a.py": "", "venv/proj/venv/lib": "", "venv/proj/data": "", "venv/proj/sub/data/x": ""})
	pkg := packed(t, filepath.Join(root, "venv", "proj"), Options{Excludes: []string{"data/", "proj"}})
	wantPacked(t, pkg, "a.py data")
	wantNotes(t, pkg)
	if diff := cmp.Diff([]LeftOut{{Name: "x.log", Count: 1}}, pkg.LeftOut); diff != "" {
		t.Errorf("left out by .gitignore (-want +got):\n%s", diff)
	}
}

// TestHostileRepository: a repository of somebody else runs no program, whatever its configuration, its index and its objects are.
func TestHostileRepository(t *testing.T) {
	root := clone(t, map[string]string{".gitignore": "x\n", "a.py": "", "far/.gitignore": "y\n", "far/b.py": "", "deep/er/c.py": ""}, nil)
	git(t, root, "sparse-checkout", "set", "--cone", "--sparse-index", "deep")
	missing := strings.TrimSpace(git(t, root, "rev-parse", "HEAD:far")) // in a partial clone git fetches such an object when it needs it, as here to list the files
	must(t, os.Remove(filepath.Join(root, ".git", "objects", missing[:2], missing[2:])))
	mark := filepath.Join(t.TempDir(), "mark")
	program := filepath.Join(t.TempDir(), "program")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$0 $*\" >> '"+mark+"'\nexit 1\n"), 0o755))
	for key, value := range map[string]string{
		"core.fsmonitor": program, "core.sshCommand": program, "core.gitProxy": program, "core.pager": program, "pager.ls-files": "true", "core.editor": program, "core.askPass": program,
		"core.alternateRefsCommand": program, "credential.helper": program, "diff.external": program, "filter.f.clean": program, "filter.f.smudge": program, "filter.f.process": program,
		"filter.f.required": "true", "alias.ls-files": "!" + program, "remote.origin.uploadpack": program, "protocol.ext.allow": "always", "protocol.allow": "always", "core.hooksPath": filepath.Dir(program),
		"extensions.partialClone": "origin", "remote.origin.promisor": "true",
	} {
		git(t, root, "config", key, value)
	}
	must(t, os.Symlink(program, filepath.Join(filepath.Dir(program), "post-index-change")))
	put(t, filepath.Join(root, ".gitattributes"), "* filter=f diff=f\n", false)
	put(t, filepath.Join(root, "new.py"), "", false)
	for name, url := range map[string]string{"file": "file://" + root, "ssh": "ssh://host/x", "ext": "ext::" + program, "helper": "program::x", "git": "git://127.0.0.1:1/x"} {
		t.Run(name, func(t *testing.T) {
			git(t, root, "-c", "core.fsmonitor=false", "config", "remote.origin.url", url)
			must(t, os.RemoveAll(mark))
			pkg := packed(t, root, Options{Excludes: []string{"!x"}})
			if ran, err := os.ReadFile(mark); err == nil {
				t.Errorf("the repository's program ran:\n%s", ran)
			}
			if names := namesOf(t, pkg); !slices.Contains(names, "new.py") || !slices.Contains(names, "deep/er/c.py") {
				t.Errorf("packed %q, notes %q", names, pkg.Notes)
			}
		})
	}
}

// TestForgedIndex: an index with a path that leads out of the directory, which git itself never writes.
func TestForgedIndex(t *testing.T) {
	root := clone(t, map[string]string{"aa/bb": "", "c": ""}, nil)
	index := filepath.Join(root, ".git", "index")
	content, err := os.ReadFile(index)
	must(t, err)
	forged := strings.Replace(string(content), "aa/bb", "../bb", 1)
	git(t, root, "config", "index.skipHash", "true")
	forged = forged[:len(forged)-20] + strings.Repeat("\x00", 20) // no checksum
	must(t, os.WriteFile(index, []byte(forged), 0o644))
	put(t, filepath.Join(filepath.Dir(root), "bb"), "secret", false)
	pkg := packed(t, root, Options{})
	for _, name := range namesOf(t, pkg) {
		if strings.Contains(name, "..") {
			t.Errorf("packed %q", name)
		}
	}
	wantNotes(t, pkg, "git does not list the files")
}

// TestLongListing has more names than a pipe holds.
func TestLongListing(t *testing.T) {
	root := clone(t, nil, map[string]string{"here": ""})
	blob := strings.TrimSpace(git(t, root, "hash-object", "-w", "here"))
	var index strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&index, "100644 %s\tdir%d/a file with a long name %d.py\n", blob, i%1000, i)
	}
	c := exec.CommandContext(t.Context(), "git", "update-index", "--index-info")
	c.Dir, c.Stdin = root, strings.NewReader(index.String())
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	put(t, filepath.Join(root, "dir7", "a file with a long name 7.py"), "", false)
	pkg := packed(t, root, Options{})
	if diff := cmp.Diff([]string{"dir7/a file with a long name 7.py", "here"}, namesOf(t, pkg)); diff != "" {
		t.Error(diff)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := WorkingDir(ended, root, Options{CacheDir: t.TempDir()}); err == nil {
		t.Error("it did not end with its context")
	}
}

// TestLeftOut: directories are measured up to a bound; files of one kind and directories of one name are one.
func TestLeftOut(t *testing.T) {
	root := tree(t, map[string]string{"data/a": "12345", "data/deep/b": "678", "x/build/o": "1", "y/build/o": "22", "small/s": "", "large/": ""})
	for i := range measuredEntries {
		put(t, filepath.Join(root, "large", fmt.Sprint(i)), "1", false)
	}
	var all []left
	for _, name := range []string{"a.ckpt", "d/b.ckpt", ".env", "d/.env", "core", "one.log"} {
		all = append(all, left{name: name, path: filepath.Join(root, name)})
	}
	for _, name := range []string{"data", "x/build", "y/build", "small", "large"} {
		all = append(all, left{name: name, path: filepath.Join(root, name), dir: true})
	}
	ctx, cancel := context.WithCancel(t.Context())
	got := leftOut(ctx, all)
	large := slices.IndexFunc(got, func(l LeftOut) bool { return l.Name == "large/" })
	if !got[large].More || got[large].Bytes >= measuredEntries {
		t.Errorf("the large one is measured whole: %+v", got[large])
	}
	want := []LeftOut{{Name: "data/", Count: 1, Bytes: 8}, {Name: "build/", Count: 2, Bytes: 3}, {Name: "*.ckpt", Count: 2}, {Name: ".env", Count: 2}, {Name: "core", Count: 1}, {Name: "one.log", Count: 1}, {Name: "small/", Count: 1}}
	if diff := cmp.Diff(want, slices.Delete(got, large, large+1)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	cancel()
	got = leftOut(ctx, all)
	large = slices.IndexFunc(got, func(l LeftOut) bool { return l.Name == "large/" })
	if diff := cmp.Diff(LeftOut{Name: "large/", Count: 1, Bytes: unhurried, More: true}, got[large]); diff != "" {
		t.Errorf("of a large one, after the time (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, slices.Delete(got, large, large+1)); diff != "" {
		t.Errorf("small ones are measured whatever time it takes (-want +got):\n%s", diff)
	}
}
