package cmd

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"mvdan.cc/sh/v3/syntax"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/schema"
)

// usersPages are the pages that users read, the generated references aside: README.md, and what the users' manual lists.
func usersPages(t *testing.T) map[string]string {
	t.Helper()
	index := pageText(t, "../docs/README.md")
	pages := map[string]string{"README.md": pageText(t, "../README.md"), "docs/README.md": index}
	for _, m := range regexp.MustCompile(`\]\(([a-z-]+\.md)\)`).FindAllStringSubmatch(index, -1) {
		if !slices.Contains([]string{"commands.md", "cluster-file.md", "recipes.md", "sites.md", "measured.md", "developers.md"}, m[1]) {
			pages["docs/"+m[1]] = pageText(t, "../docs/"+m[1])
		}
	}
	if len(pages) < 20 {
		t.Fatalf("only %d pages", len(pages))
	}
	return pages
}

func pageText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	pageBlock = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	pageSpan  = regexp.MustCompile("`([^`\n]+)`")
)

// shellIn is what of a page is shell: blocks of commands, what follows a $ in a session, and commands between backquotes.
func shellIn(text string) (scripts []string) {
	for _, block := range pageBlock.FindAllStringSubmatch(text, -1) {
		if block[1] != "text" && block[1] != "" {
			continue
		}
		if !strings.Contains("\n"+block[2], "\n$ ") {
			scripts = append(scripts, block[2])
			continue
		}
		for _, line := range strings.Split(block[2], "\n") {
			if command, typed := strings.CutPrefix(line, "$ "); typed {
				scripts = append(scripts, command)
			}
		}
	}
	for _, span := range pageSpan.FindAllStringSubmatch(pageBlock.ReplaceAllString(text, ""), -1) {
		scripts = append(scripts, span[1])
	}
	return scripts
}

// rayctlCalls are the command lines of rayctl in a script, wherever they stand in it. What the shell would expand stands there as one word.
func rayctlCalls(script string) (calls [][]string) {
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	if err != nil && strings.Contains(strings.TrimSpace(script), "\n") {
		for line := range strings.Lines(script) {
			calls = append(calls, rayctlCalls(line)...)
		}
	}
	if err != nil {
		return calls
	}
	syntax.Walk(file, func(node syntax.Node) bool {
		call, is := node.(*syntax.CallExpr)
		if !is || len(call.Args) < 2 || call.Args[0].Lit() != "rayctl" {
			return true
		}
		var words []string
		for _, arg := range call.Args {
			words = append(words, word(arg))
		}
		calls = append(calls, words)
		return true
	})
	return calls
}

// word is a word without its quotes.
func word(arg *syntax.Word) string {
	var b strings.Builder
	var add func(parts []syntax.WordPart)
	add = func(parts []syntax.WordPart) {
		for _, part := range parts {
			switch part := part.(type) {
			case *syntax.Lit:
				b.WriteString(part.Value)
			case *syntax.SglQuoted:
				b.WriteString(part.Value)
			case *syntax.DblQuoted:
				add(part.Parts)
			default:
				b.WriteString("expanded")
			}
		}
	}
	add(arg.Parts)
	return b.String()
}

// TestPagesCommands: each command of rayctl on a page that users read is one, with flags and arguments that it takes.
func TestPagesCommands(t *testing.T) {
	pages, checked := usersPages(t), map[string]bool{}
	for name, text := range pages {
		for _, script := range shellIn(text) {
			for _, words := range rayctlCalls(script) {
				line := strings.Join(words, " ")
				if complaint := notTaken(t, words); !checked[line] && complaint != "" {
					t.Errorf("%s: %s: %s", name, line, complaint)
				}
				checked[line] = true
			}
		}
	}
	if len(checked) < 150 {
		t.Errorf("only %d commands were found", len(checked))
	}
}

// TestNotTaken: what TestPagesCommands is to find, it finds.
func TestNotTaken(t *testing.T) {
	for script, want := range map[string]string{
		"rayctl run --workers 2 -- python train.py --nosuch": "",
		"rayctl nosuch":                   "no such command",
		"rayctl run --nosuch -- true":     "unknown flag",
		"eval \"$(rayctl env --nosuch)\"": "unknown flag",
		"rayctl jobs a b c":               "takes a cluster and a job",
		"rayctl completion SHELL":         "",
		"rayctl COMMAND --help":           "",
	} {
		calls := rayctlCalls(script)
		if len(calls) != 1 {
			t.Fatalf("%s: %q", script, calls)
		}
		if got := notTaken(t, calls[0]); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

// notTaken is why rayctl would not take a command line; "" if it would. Words in capitals stand for others.
func notTaken(t *testing.T, words []string) string {
	t.Helper()
	if words[1] == "COMMAND" || strings.Contains(words[1], "=") || slices.Contains(words, "...") {
		return "" // a form, not a command
	}
	a, _, _ := apptest.New()
	root := NewRoot(a)
	c, rest, err := root.Find(words[1:])
	switch {
	case slices.Equal(words[1:], []string{"completion", "SHELL"}), slices.Equal(words[1:], []string{"run", "train.py"}): // App.Execute adds the dashes of the second
		return ""
	case err != nil:
		return err.Error()
	case c == root && !strings.HasPrefix(words[1], "-"):
		return "no such command"
	case len(rest) == 0:
		return "" // only named
	}
	if err := c.ParseFlags(rest); err != nil {
		return err.Error()
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		return err.Error()
	}
	return ""
}

// keysOf are the paths of all keys of the cluster file, without the marks of lists and maps.
func keysOf() map[string]bool {
	keys := map[string]bool{"job.metadata.template": true} // what `rayctl init` writes there
	for _, section := range schema.Reference() {
		for _, f := range section.Fields {
			keys[plainPath.Replace(f.Path)] = true
		}
	}
	return keys
}

var keyPath = regexp.MustCompile(`^[a-z][A-Za-z]*(\.[A-Za-z]+)+$`)

// others look like paths of keys, and are files and functions.
var others = map[string]bool{"ray.sub": true, "gang.sh": true, "slurm.out": true, "ray.get": true}

// TestPagesKeys: each path of a key that users read of is in the cluster file.
func TestPagesKeys(t *testing.T) {
	keys, checked := keysOf(), 0
	for name, text := range usersPages(t) {
		for _, span := range pageSpan.FindAllStringSubmatch(pageBlock.ReplaceAllString(text, ""), -1) {
			path := strings.TrimSuffix(span[1], ":")
			first, _, _ := strings.Cut(path, ".")
			if !keyPath.MatchString(path) || !keys[first] || others[path] {
				continue
			}
			checked++
			if !keys[path] {
				t.Errorf("%s: %s is no key", name, path)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d keys were found", checked)
	}
}

// nested is the path of a key as maps in one another: job.env is job: {env.
func nested(path string) string { return strings.ReplaceAll(path, ".", ": {") }

// decoded is what is wrong with a cluster file; it need not be whole.
func decoded(text string) error {
	_, err := spec.Decode(strings.NewReader(text), "rayctl.yaml")
	return err
}

// TestPagesFiles: each cluster file, or part of one, that users see is one.
func TestPagesFiles(t *testing.T) {
	keys, checked := keysOf(), 0
	for name, text := range usersPages(t) {
		var parts []string
		for _, block := range pageBlock.FindAllStringSubmatch(text, -1) {
			if block[1] == "yaml" {
				parts = append(parts, block[2])
			}
		}
		for _, span := range pageSpan.FindAllStringSubmatch(pageBlock.ReplaceAllString(text, ""), -1) {
			if path, value, found := strings.Cut(span[1], ": "); found {
				parts = append(parts, nested(path)+": "+value+strings.Repeat("}", strings.Count(path, ".")))
			}
		}
		for _, part := range parts {
			var document map[string]any
			if yaml.Unmarshal([]byte(part), &document) != nil || len(document) == 0 || strings.Contains(part, "...") {
				continue // no YAML, or with something left out
			}
			ours := true
			for key := range document {
				ours = ours && keys[key]
			}
			if !ours {
				continue
			}
			checked++
			if err := decoded(part); err != nil && decoded("workers: [{name: any, "+part+"}]") != nil {
				t.Errorf("%s: %v:\n%s", name, err, part)
			}
		}
	}
	if checked < 50 {
		t.Errorf("only %d files were found", checked)
	}
}
