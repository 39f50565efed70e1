package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRendered: a document as a terminal of 40 columns shows it.
func TestRendered(t *testing.T) {
	document := "# A title\n\nThe first of\ntwo lines, **and what matters**: [the other](other.md#part), [here](#here), `[no](link)` and `a|b`.\n" +
		"- one item that is longer than the line\nand goes on\n- two\n\n```text\ncode that is never broken, however long it is\n```\n<!-- for authors -->\n\n" +
		"| key | what it means |\n|---|---|\n| `a\\|b` | words that have no room on one line |\n| c |\n\n" +
		"| a | b |\n|---|---|\n| averyverylongwordinacell | anotherlongwordinit and more |\n"
	more := func(target string) string { return map[string]string{"other.md#part": "`help other`"}[target] }
	want := `
# A title

The first of two lines, and what
matters: the other (` + "`help other`" + `), here,
` + "`[no](link)` and `a|b`" + `.
- one item that is longer than the line
  and goes on
- two

    code that is never broken, however long it is

key     what it means
` + "`a|b`" + `   words that have no room on one
        line
c

a
    b
averyverylongwordinacell
    anotherlongwordinit and more
`
	if d := cmp.Diff(want, "\n"+rendered(document, 40, false, more)); d != "" {
		t.Error(d)
	}
	if got, want := rendered("## A `b`\n**c d**", 40, true, more), "\x1b[1mA `b`\x1b[0m\n\x1b[1mc d\x1b[0m"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	var plain bytes.Buffer
	if err := Markdown(&plain, document, more); err != nil || plain.String() != document {
		t.Errorf("off a terminal it is another: %q, %v", plain.String(), err)
	}
}

// TestDocumentsFit: on a terminal of 80 columns each line of each document fits, but for code and what has no space in it, and no word is lost.
func TestDocumentsFit(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "docs", "*.md"))
	if err != nil || len(files) < 20 {
		t.Fatal(len(files), err)
	}
	word := regexp.MustCompile(`[A-Za-z]{3,}`)
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := rendered(string(data), 80, false, func(target string) string { return "" })
		for line := range strings.Lines(text) {
			line = strings.TrimRight(line, "\n")
			if bare := strings.TrimSpace(line); widthOf(line) > 80 && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(line, "#") && strings.Contains(mark.ReplaceAllString(bare, ""), " ") {
				t.Errorf("%s: wider than the terminal: %s", file, line)
			}
		}
		bare := ""
		for i, part := range strings.Split("\n"+string(data), "\n```") {
			if i%2 == 0 {
				part = (&page{more: func(string) string { return "" }}).inline(hidden.ReplaceAllString(part, ""), false)
			}
			bare += "\n" + language.ReplaceAllString(part, "")
		}
		if d := cmp.Diff(count(word.FindAllString(bare, -1)), count(word.FindAllString(text, -1))); d != "" {
			t.Errorf("%s: other words:\n%s", file, d)
		}
	}
}

// What a rendered document does not show: comments, and the language of code.
var (
	hidden   = regexp.MustCompile("(?m)^<!--.*-->$")
	language = regexp.MustCompile("^(text|yaml|python|go|json|bash)\n")
)

func count(words []string) map[string]int {
	out := map[string]int{}
	for _, w := range words {
		out[w]++
	}
	return out
}
