package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fenced      = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	codeSpan    = regexp.MustCompile("`[^`\n]*`")
	link        = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingLine = regexp.MustCompile(`(?m)^#+ (.*)$`)
	linkText    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	noAnchor    = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// anchors are those of a page's headings, as GitHub makes them; mkdocs.yml has the same rule.
func anchors(text string) (found []string) {
	for _, m := range headingLine.FindAllStringSubmatch(fenced.ReplaceAllString(text, ""), -1) {
		plain := noAnchor.ReplaceAllString(strings.ToLower(linkText.ReplaceAllString(m[1], "$1")), "")
		found = append(found, strings.ReplaceAll(strings.TrimSpace(plain), " ", "-"))
	}
	return found
}

// linksIn are the targets that a page names, without what stands in code.
func linksIn(text string) (found []string) {
	for _, m := range link.FindAllStringSubmatch(codeSpan.ReplaceAllString(fenced.ReplaceAllString(text, ""), "`"), -1) {
		found = append(found, m[1])
	}
	return found
}

// TestLinks: every link of a document to a file of the repository, or to a heading of one, leads somewhere.
func TestLinks(t *testing.T) {
	root, pages := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, d.Name()) {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		pages++
		for _, target := range linksIn(readFile(t, path)) {
			if broken := brokenLink(path, target); broken != "" {
				t.Errorf("%s: (%s) %s", path, target, broken)
			}
		}
		return nil
	})
	if err != nil || pages < 20 {
		t.Errorf("%d pages, %v", pages, err)
	}
}

// brokenLink is what is wrong with a link of a page; "" if nothing is.
func brokenLink(page, target string) string {
	if strings.Contains(target, "://") {
		return ""
	}
	file, anchor, _ := strings.Cut(target, "#")
	path := page
	if file != "" {
		path = filepath.Join(filepath.Dir(page), file)
	}
	if _, err := os.Stat(path); err != nil {
		return "is not there"
	}
	if anchor == "" {
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil || !slices.Contains(anchors(string(text)), anchor) {
		return "has no such heading"
	}
	return ""
}

// TestBrokenLinks: what TestLinks is to find, it finds.
func TestBrokenLinks(t *testing.T) {
	page := filepath.Join("..", "slurm.md")
	for target, want := range map[string]string{
		"kuberay.md":                 "",
		"../README.md#install":       "",
		"#srun-in-a-driver":          "",
		"slurm-reference.md#nothing": "has no such heading",
		"nothing.md":                 "is not there",
		"#nothing":                   "has no such heading",
		"https://example.com/x":      "",
		"slurm-reference.md#--deadline-for-lifetimequeue": "",
	} {
		if got := brokenLink(page, target); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
	}
	if got := linksIn("[a](b.md) `[c](d.md)`\n```text\n[e](f.md)\n```\n[`g`](h.md)\n"); !slices.Equal(got, []string{"b.md", "h.md"}) {
		t.Errorf("links: %q", got)
	}
}

// TestPagesBegin: each page that users read begins with the command that most came for, behind at most one sentence. References are looked up, and begin as they like.
func TestPagesBegin(t *testing.T) {
	index, _, _ := strings.Cut(readPage(t, "README.md"), "## References")
	pages := 0
	for _, name := range append(linksIn(index), "README.md", "developers.md", "testing.md") {
		pages++
		if complaint := beginning(readPage(t, name)); complaint != "" {
			t.Errorf("%s %s", name, complaint)
		}
	}
	if pages < 20 {
		t.Errorf("%d pages", pages)
	}
	for text, good := range map[string]bool{
		"# A\n\n```text\nrayctl run\n```\n":                         true,
		"# A\n\nIt runs it:\n\n```text\nrayctl run\n```\n":          true,
		"# A\n\nOne. It runs it:\n\n```text\nrayctl run\n```\n":     false,
		"# A\n\n```yaml\nname: rayctl\n```\n```text\nrayctl\n```\n": false,
		"# A\n\n## B\n\n```text\nrayctl run\n```\n":                 false,
		"# A\n\nrayctl\n": false,
	} {
		if got := beginning(text); (got == "") != good {
			t.Errorf("%q: %q", text, got)
		}
	}
}

// command is a line of shell that runs rayctl or make, or one of Python that calls rayctl.
var command = regexp.MustCompile(`(?m)^(\$ )?(rayctl |make |import rayctl$)`)

// beginning is what is wrong with the first lines of a page; "" if nothing is.
func beginning(text string) string {
	_, rest, _ := strings.Cut(text, "\n")
	block := fenced.FindStringIndex(rest)
	if block == nil {
		return "has no command"
	}
	before := strings.TrimSpace(rest[:block[0]])
	if strings.Contains(before, "#") || strings.Contains(before, ". ") || strings.Contains(before, "\n") {
		return "has more than a sentence before its first command: " + before
	}
	if !command.MatchString(rest[block[0]:block[1]]) {
		return "does not begin with a command of rayctl"
	}
	return ""
}

// TestIndexes: each page is in the index of exactly one manual, and in the navigation of the site; the users' manual stays short.
func TestIndexes(t *testing.T) {
	references := strings.SplitAfter(readPage(t, "README.md"), "## References")
	if len(references) != 2 {
		t.Fatal("docs/README.md has no references")
	}
	users, developers, site, lines := linksIn(readPage(t, "README.md")), linksIn(readPage(t, "developers.md")), readPage(t, "..", "mkdocs.yml"), 0
	guide, _, _ := strings.Cut(readPage(t, "developers.md"), "\nWhat a user sees")
	pages, err := filepath.Glob(filepath.Join("..", "*.md"))
	if err != nil || len(pages) < 20 {
		t.Fatal(len(pages), err)
	}
	for _, path := range pages {
		name := filepath.Base(path)
		if !strings.Contains(site, " "+name+"\n") {
			t.Errorf("mkdocs.yml does not name %s", name)
		}
		index := name == "README.md" || name == "developers.md"
		inUsers, inDevelopers := slices.Contains(users, name), slices.Contains(linksIn(guide), name)
		if !index && inUsers == inDevelopers {
			t.Errorf("%s: in the users' manual %t, in the developers' %t", name, inUsers, inDevelopers)
		}
		if name == "README.md" || !index && inUsers && !slices.Contains(linksIn(references[1]), name) {
			lines += strings.Count(readPage(t, name), "\n")
		}
	}
	if !slices.Contains(users, "developers.md") || !slices.Contains(developers, "README.md") {
		t.Error("the manuals do not name each other")
	}
	const most = 1500
	if lines > most {
		t.Errorf("the users' manual has %d lines without its references, more than %d", lines, most)
	}
	t.Logf("%d lines", lines)
}
