package pack

import (
	"bytes"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	ignorePairs = flag.Int("ignore-pairs", 2000, "how many generated trees TestIgnoreIsGits compares")
	ignoreSeed  = flag.Uint64("ignore-seed", 1, "the first one's seed")
)

// repository makes a directory the top of a git repository, with the minimum that git requires, without running git.
func repository(t testing.TB, root string) {
	t.Helper()
	for _, dir := range []string{"objects", "refs", "info"} {
		must(t, os.MkdirAll(filepath.Join(root, ".git", dir), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(root, ".git", "HEAD"), []byte("ref: refs/heads/main\n"), 0o644))
}

// listedByGit are the files that git would add.
func listedByGit(t testing.TB, root string) []string {
	t.Helper()
	git := exec.CommandContext(t.Context(), "git", "-c", "core.excludesFile=/dev/null", "ls-files", "-z", "--others", "--exclude-standard")
	git.Dir = root
	git.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	var complaint bytes.Buffer
	git.Stderr = &complaint
	out, err := git.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v: %s", err, &complaint)
	}
	files := strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
	slices.Sort(files)
	return files
}

// listed are the files that this package's own matcher would pack.
func listed(t testing.TB, root string) []string {
	t.Helper()
	opts := Options{Logger: slog.New(slog.DiscardHandler)}
	walked, err := newWalker(t.Context(), source{root: root}, opts)
	must(t, err)
	must(t, walked.withoutGit(root, "", newRules(opts)))
	files := []string{}
	for _, f := range walked.files {
		if !f.dir { // git has no directories
			files = append(files, f.name)
		}
	}
	slices.Sort(files)
	return files
}

// TestIgnoreExamples are patterns that other implementations get wrong, each with the files that remain.
func TestIgnoreExamples(t *testing.T) {
	for name, c := range map[string]struct{ files, want string }{
		"all but one kind":               {".gitignore=*\n!*/\n!*.py a.py a.txt d/b.py d/b.txt d/e/c.py d/e/c.bin", "a.py d/b.py d/e/c.py"},
		"a directory taken back":         {".gitignore=*.csv\n!data data/x.csv data/x.py x.csv", ".gitignore data/x.py"},
		"below what is left out":         {".gitignore=out\n!out/keep out/keep out/x d/out/keep x", ".gitignore x"},
		"all inside, one taken back":     {".gitignore=out/*\n!out/keep out/keep out/x d/out/x", ".gitignore d/out/x out/keep"},
		"a deeper file overrides":        {".gitignore=*.log\n!d/e/f.log d/.gitignore=!*.log\ne/ d/x.log x.log d/e/f.log", ".gitignore d/.gitignore d/x.log"},
		"a deeper file is not asked":     {".gitignore=d/ d/.gitignore=!* d/x x", ".gitignore x"},
		"anchored":                       {".gitignore=/a\nb/c a d/a b/c d/b/c", ".gitignore d/a d/b/c"},
		"directories only":               {".gitignore=a/ d/a b/a/x", ".gitignore d/a"},
		"two asterisks":                  {".gitignore=**/a\nb/**\nc/**/x\nd** a e/a b/x c/x c/y/x c/y/z/x d1/x e/d2 e/f", ".gitignore e/f"},
		"two asterisks are no directory": {".gitignore=a/**/ a/x a/b/x b/x", ".gitignore a/x b/x"},
		"classes":                        {".gitignore=[!a]1\n[b-d]2\n[[:digit:]]3\n[]x]4\n[a-]5\n[\\]]6 a1 b1 a2 c2 13 a3 ]4 y4 -5 b5 ]6", ".gitignore a1 a2 a3 b5 y4"},
		"malformed":                      {".gitignore=[a\nb\\ [a a b\n", ".gitignore [a a b"},
		"escapes":                        {".gitignore=\\#a\n\\!b\n#c\n\\* #a !b #c * d", "#c .gitignore d"},
		"this clone's own":               {".git/info/exclude=*.env\n!b.env a.env b.env sub/c.env x", "b.env x"},
		"not as strong as the tree's":    {".git/info/exclude=a .gitignore=!a a b", ".gitignore a b"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			repository(t, root)
			for _, file := range strings.Split(strings.TrimSuffix(c.files, "\n"), " ") {
				name, content, _ := strings.Cut(file, "=")
				put(t, filepath.Join(root, name), content, false)
			}
			want := strings.Split(c.want, " ")
			if git := listedByGit(t, root); !slices.Equal(git, want) {
				t.Errorf("git itself: %q, we expect %q", git, want)
			}
			if got := listed(t, root); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}

// TestIgnoreOddFiles: spaces, line ends and byte order marks in pattern files, and pattern files that are no files.
func TestIgnoreOddFiles(t *testing.T) {
	root := tree(t, map[string]string{
		".gitignore": "\ufefffirst\nspaces  \nkept\\ \ncrlf\r\nnul\x00x\n\r\nlast " + strings.Repeat("x", 100_000) + "\n" + "end\r",
		"first":      "", "spaces": "", "kept" + " ": "", "kept": "", "crlf": "", "nul": "", "nulx": "", "end": "", "d/.gitignore/x": "", "e/f": "", "g/f": "", "patterns": "f",
	})
	repository(t, root)
	must(t, os.Symlink("../patterns", filepath.Join(root, "e", ".gitignore"))) // git does not follow links
	if diff := cmp.Diff([]string{".gitignore", "d/.gitignore/x", "e/.gitignore", "e/f", "g/f", "kept", "nulx", "patterns"}, listed(t, root)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(listedByGit(t, root), listed(t, root)); diff != "" {
		t.Errorf("git lists (-), we (+):\n%s", diff)
	}
}

// TestExcludeOfLinkedTree: the patterns of a clone apply to each of its working trees.
func TestExcludeOfLinkedTree(t *testing.T) {
	root := tree(t, map[string]string{"main/a": "", "main/b": ""})
	git := func(args ...string) {
		command := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"}, args...)...)
		command.Dir = filepath.Join(root, "main")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "x")
	git("worktree", "add", "-q", "../linked")
	put(t, filepath.Join(root, "main", ".git", "info", "exclude"), "a\n", false)
	put(t, filepath.Join(root, "linked", "a"), "", false)
	put(t, filepath.Join(root, "linked", "b"), "", false)
	for _, dir := range []string{"main", "linked"} {
		if got := listed(t, filepath.Join(root, dir)); !slices.Equal(got, []string{"b"}) {
			t.Errorf("%s: %q", dir, got)
		}
	}
}

// TestIgnoreIsGits compares generated trees and patterns with git itself. (go test -run TestIgnoreIsGits ./dashboardclient/pack -ignore-pairs 100000)
func TestIgnoreIsGits(t *testing.T) {
	const workers = 4
	for worker := range workers {
		t.Run(fmt.Sprint(worker), func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			for i := worker; i < *ignorePairs; i += workers {
				root := filepath.Join(parent, fmt.Sprint(i))
				seed := *ignoreSeed + uint64(i)
				files := generated(seed)
				repository(t, root)
				for name, content := range files {
					put(t, filepath.Join(root, name), content, false)
				}
				if diff := cmp.Diff(listedByGit(t, root), listed(t, root)); diff != "" {
					for _, name := range slices.Sorted(maps.Keys(files)) {
						t.Logf("%q: %q", name, files[name])
					}
					t.Fatalf("-ignore-seed %d: git lists (-), we (+):\n%s", seed, diff)
				}
				must(t, os.RemoveAll(root))
			}
		})
	}
}

// generated is a tree of files, some with patterns, most of them made of the names in the tree so that some match.
func generated(seed uint64) map[string]string {
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	files := map[string]string{}
	var paths []string
	for range 4 + g.IntN(25) {
		parts := make([]string, 1+g.IntN(4))
		for i := range parts {
			parts[i] = g.name()
		}
		path := strings.Join(parts, "/")
		if g.fits(files, path) {
			files[path] = ""
			paths = append(paths, path)
		}
	}
	homes := []string{".gitignore"}
	if g.IntN(4) == 0 {
		homes = append(homes, ".git/info/exclude")
	}
	for range g.IntN(3) {
		if dir := filepath.Dir(paths[g.IntN(len(paths))]); dir != "." {
			homes = append(homes, dir+"/.gitignore")
		}
	}
	for _, home := range homes {
		var content strings.Builder
		for range 1 + g.IntN(6) {
			content.WriteString(g.line(paths, filepath.Dir(home)))
		}
		files[home] = content.String()
	}
	return files
}

type generator struct{ *rand.Rand }

func (g generator) of(choices ...string) string { return choices[g.IntN(len(choices))] }

func (g generator) name() string {
	return g.of("a", "b", "c", "ab", "abc", "a1", "foo", "foobar", "bar", "src", "data", "x.py", "y.py", "x.txt", "z.csv", ".env", "A", "ä", "a b", "c ", "#h", "!n",
		"[a]", "a*", "b?", "-", "]", "^", "a.b.c", "é1", "x\ty", "{a,b}", "~", "$x")
}

// fits reports whether neither the path nor a part of it exists as something else.
func (g generator) fits(files map[string]string, path string) bool {
	for other := range files {
		if other == path || strings.HasPrefix(other, path+"/") || strings.HasPrefix(path, other+"/") {
			return false
		}
	}
	return true
}

// line is a pattern with its end.
func (g generator) line(paths []string, dir string) string {
	var pattern string
	switch g.IntN(10) {
	case 0:
		pattern = g.of("*", "*/", "**", "/*", "*/*", "*.py", "**/", "/**", "**/*", "*.*", "?", "??", ".*", "/*/", "[a-c]", "[!a]*", "a/**/b", "*/", "", "/", "//", "!", "\\")
	case 1:
		pattern = g.garbage()
	default:
		pattern = g.derived(paths, dir)
	}
	if g.IntN(4) == 0 {
		pattern = "/" + pattern
	}
	if g.IntN(3) == 0 {
		pattern = "!" + pattern
	}
	if g.IntN(5) == 0 {
		pattern += "/"
	}
	return pattern + g.of("\n", "\n", "\n", "\n", "\n", "\n", " \n", "  \n", "\\ \n", "\r\n", " \r\n", "\t\n", "\n\n", "\n# a comment\n")
}

// derived is a part of a path with wildcards in it.
func (g generator) derived(paths []string, dir string) string {
	path := paths[g.IntN(len(paths))]
	if inside, ok := strings.CutPrefix(path, dir+"/"); ok {
		path = inside
	}
	parts := strings.Split(path, "/")
	from := g.IntN(len(parts))
	if g.IntN(2) == 0 {
		from = 0
	}
	parts = slices.Clone(parts[from : from+1+g.IntN(len(parts)-from)])
	for i, part := range parts {
		switch g.IntN(8) {
		case 0:
			parts[i] = g.of("*", "**", "***", "?*", "*?", "a**", "**a", "[!/]*", "*/**", "**/*")
		case 1, 2, 3:
			parts[i] = g.withWildcards(part)
		}
	}
	return strings.Join(parts, g.of("/", "/", "/", "/", "/**/", "**/", "/**", `\/`, "/*/"))
}

// withWildcards puts wildcards in the place of some bytes.
func (g generator) withWildcards(name string) string {
	var out strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i : i+1]
		switch g.IntN(9) {
		case 0:
			out.WriteString("?")
		case 1:
			out.WriteString(g.of("*", "*", "*", "**"))
		case 2:
			out.WriteString(g.of("["+c+"]", "[^"+c+"]", "[!"+c+"]", "[a-c]", "[!a-c]", "[]"+c+"]", "["+c+"-]", "[-"+c+"]", "[\\"+c+"]", "[a-\\c]", "[[:alpha:]]",
				"[[:alnum:][:punct:]]", "[![:digit:]]", "[[:upper:]"+c+"]", "[[:space:]]", "[[:foo:]]", "[[:alpha:]", "[[:]"+c+"]", "[[:alpha]", "[c-a]", "[a-c-e]", "[[a]"))
		case 3:
			out.WriteString(`\` + c)
		case 4: // omitted
		default:
			out.WriteString(c)
		}
	}
	if g.IntN(4) == 0 {
		return out.String() + "*"
	}
	return out.String()
}

func (g generator) garbage() string {
	var out strings.Builder
	for range 1 + g.IntN(8) {
		out.WriteString(g.of("*", "*", "?", "[", "]", "!", "^", "-", `\`, "/", "/", "a", "b", "c", "foo", ".", "#", " ", "[:alpha:]", "[:", ":]", "**", "/**/", "\xc3", "\xa4", "\t", "\x00"))
	}
	return out.String()
}

// FuzzIgnore compares any two files of patterns with git, in a tree with names that patterns often get wrong.
func FuzzIgnore(f *testing.F) {
	f.Add("*\n!*/\n!*.py\n", "")
	f.Add("*.csv\n!data\n", "!*\n")
	f.Add("a**/b\n**/x[!a]\n\\ \n", "/**\n!/b\n")
	f.Add("[[:alpha:]-c]\n[\n", "a/**/b/\r\n")
	for seed := range uint64(20) {
		files := generated(seed)
		f.Add(files[".gitignore"], files["a/.gitignore"])
	}
	f.Fuzz(func(t *testing.T, top, inner string) {
		root := tree(t, map[string]string{".gitignore": top, "a/.gitignore": inner})
		repository(t, root)
		for _, dir := range []string{"", "a/", "a/b/", "data/", "foo/a/"} {
			for _, name := range []string{"x.py", "x.csv", "c", "abc", "ä", "a b", "e ", "#h", "!n", "[a]", "-", "]", "A1"} {
				put(t, filepath.Join(root, dir+name), "", false)
			}
		}
		if diff := cmp.Diff(listedByGit(t, root), listed(t, root)); diff != "" {
			t.Errorf("git lists (-), we (+):\n%s", diff)
		}
	})
}
