// Package docs has the documents that `rayctl help` shows: an installed program has no other files, and its user perhaps no network.
package docs

import (
	"embed"
	"regexp"
	"strings"
)

//go:embed *.md
var files embed.FS

// Read is the text of a document, such as elastic.md, or of one section, such as exit-codes.md#Exit codes; "" if there is none.
func Read(name string) string {
	name, title, part := strings.Cut(name, "#")
	if text := whole(name); !part || text == "" {
		return text
	}
	_, text, found := strings.Cut(whole(name), "\n## "+title+"\n")
	if !found {
		return ""
	}
	text, _, _ = strings.Cut(text, "\n## ")
	text, _, _ = strings.Cut(text, "\n# ")
	return "## " + title + "\n" + marks.ReplaceAllString(text, "")
}

// marks are comments for those who would edit a part.
var marks = regexp.MustCompile(`(?m)^<!--.*-->\n`)

func whole(name string) string {
	text, err := files.ReadFile(name)
	if err != nil {
		return ""
	}
	if first, rest, _ := strings.Cut(string(text), "\n"); strings.HasPrefix(first, "<!--") { // for those who would edit it
		return rest
	}
	return string(text)
}
