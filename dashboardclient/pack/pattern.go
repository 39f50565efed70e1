package pack

import (
	"bytes"
	"strings"
)

// pattern is one line of a file in .gitignore syntax.
type pattern struct {
	negation  *negation // "!": takes matching files back; nil: leaves them out
	dirsOnly  bool      // "/" at the end
	nameOnly  bool      // no other "/": matches the last part of the path, at any depth
	base      int       // length of the path of the pattern file's directory, with a slash at the end
	literal   string
	endsWith  bool // "*" and then literal
	wildcards []token
	never     bool // malformed, as "[a" and "a\": matches nothing, in git, too
}

// negation is a pattern that takes files back.
type negation struct {
	text      string // as it is written
	source    string // the file, or job.excludes
	effective bool   // something would be left out without it
}

// parsePatterns parses a file of patterns. base is the length of its directory's path with a slash at the end, 0 for the top.
func parsePatterns(content []byte, base int) []pattern {
	var patterns []pattern
	content = bytes.TrimPrefix(content, []byte("\ufeff"))
	for _, line := range strings.Split(string(content), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.TrimSuffix(line, "\r")
		line, _, _ = strings.Cut(line, "\x00") // git uses C strings
		if p, ok := parsePattern(withoutTrailingSpaces(line), base); ok {
			patterns = append(patterns, p)
		}
	}
	return patterns
}

// withoutTrailingSpaces keeps a space after a backslash. A backslash as the last character keeps all of them, as in git.
func withoutTrailingSpaces(line string) string {
	end := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case ' ':
			continue
		case '\\':
			i++
			if i == len(line) {
				return line
			}
		}
		end = i + 1
	}
	return line[:end]
}

// parsePattern parses one line. ok is false if the line is empty and so can match nothing.
func parsePattern(line string, base int) (p pattern, ok bool) {
	p.base = base
	if positive, negated := strings.CutPrefix(line, "!"); negated {
		line, p.negation = positive, &negation{text: line}
	}
	line, p.dirsOnly = strings.CutSuffix(line, "/")
	if line == "" {
		return p, false
	}
	p.nameOnly = !strings.Contains(line, "/")
	line = strings.TrimPrefix(line, "/")
	special := strings.IndexAny(line, `*?[\`)
	switch {
	case special < 0:
		p.literal = line
	case p.nameOnly && special == 0 && line[0] == '*' && !strings.ContainsAny(line[1:], `*?[\`):
		p.literal, p.endsWith = line[1:], true
	default:
		// git compares the text before the first wildcard separately, so that "**" after it counts as a beginning, even in "a**/b".
		p.literal = line[:special]
		p.wildcards, ok = parseWildcards(line[special:])
		p.never = !ok
	}
	return p, true
}

// matches reports whether the pattern matches a path relative to the top, with slashes. The path must be below the pattern's directory.
func (p *pattern) matches(path string, dir bool) bool {
	if p.never || p.dirsOnly && !dir {
		return false
	}
	subject := path[p.base:]
	if p.nameOnly {
		subject = path[strings.LastIndexByte(path, '/')+1:]
	}
	if p.endsWith {
		return strings.HasSuffix(subject, p.literal)
	}
	if p.wildcards == nil {
		return subject == p.literal
	}
	rest, ok := strings.CutPrefix(subject, p.literal)
	return ok && matchWildcards(p.wildcards, rest)
}

// takesBackBelow reports whether the pattern takes back what is at a path, with directories in it, below a directory.
func (p *pattern) takesBackBelow(dir string) bool {
	if p.negation == nil || p.never || p.nameOnly {
		return false
	}
	inside := dir[p.base:] + "/"
	return strings.HasPrefix(p.literal, inside) || p.wildcards != nil && strings.HasPrefix(inside, p.literal)
}
