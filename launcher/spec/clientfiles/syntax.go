package clientfiles

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// What a line of requirements is made of (PEP 508, and pip's requirements files). Versions may be anything that some installer has taken.
const (
	packageName = `[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`
	oneVersion  = `(?:===|==|~=|!=|<=|>=|<|>)\s*[A-Za-z0-9*][A-Za-z0-9.!+_*-]*`
	versions    = oneVersion + `(?:\s*,\s*` + oneVersion + `)*\s*,?`
)

var (
	optionsBehind = regexp.MustCompile(`\s--?[A-Za-z].*$`)
	needsArgument = regexp.MustCompile(`^(-[ecrfi]|--(?:editable|constraint|requirement|find-links|index-url|extra-index-url|trusted-host|no-binary|only-binary))[\s=]*$`)
	nameAndExtras = regexp.MustCompile(`^` + packageName + `\s*(?:\[\s*(?:` + packageName + `(?:\s*,\s*` + packageName + `)*)?\s*\])?\s*`)
	onlyVersions  = regexp.MustCompile(`^(?:` + versions + `|\(\s*` + versions + `\s*\))?$`)
	oneEquals     = regexp.MustCompile(`^=[^=]`)
	noVersion     = regexp.MustCompile(`(?:[=<>!~]=|[<>])\s*(?:,|\)|$)`)
	address       = regexp.MustCompile(`://|^file:|^(?:git|hg|svn|bzr)\+`)
	markerToken   = regexp.MustCompile(`^\s*('[^']*'|"[^"]*"|===|==|~=|!=|<=|>=|<|>|\(|\)|[A-Za-z_][A-Za-z0-9_.]*)`)
)

// otherLineEnds end lines for Python, and so for pip.
const otherLineEnds = "\v\f\x1c\x1d\x1e\u0085\u2028\u2029"

const likeThis = `write a package as in numpy>=1.26,<3, one on a line`

// wrongLine is why no installer takes a line without comments, and the next step; "" if one may. What the line means is the installer's to say.
func wrongLine(line string) (cause, hint string) {
	line = stripped(strings.TrimPrefix(line, "\ufeff"))
	if m := needsArgument.FindStringSubmatch(line); m != nil {
		return fmt.Sprintf("%q has nothing behind %s", line, m[1]), "write there what it is about"
	}
	switch {
	case strings.ContainsAny(line, otherLineEnds):
		return "", ""
	case line == "" || strings.Contains(line, "$") || isLocal("", line) || strings.ContainsAny(line[:1], "/~") || address.MatchString(line):
		return "", ""
	case strings.HasPrefix(line, "- "):
		return fmt.Sprintf("%q has a - of a YAML list before it", line), "leave it out; " + likeThis
	case line[0] == '-':
		return "", ""
	case line[0] == '"' || line[0] == '\'':
		return fmt.Sprintf("%q is in quotes", line), "leave them out"
	}
	return wrongRequirement(line, optionsBehind.ReplaceAllString(line, ""))
}

// wrongRequirement is wrongLine for a package by its name; of the line, text is without the options behind it.
func wrongRequirement(line, text string) (cause, hint string) {
	name := nameAndExtras.FindString(text)
	if name == "" {
		return fmt.Sprintf("%q does not begin with the name of a package", line), likeThis
	}
	rest := text[len(name):]
	if url, isURL := strings.CutPrefix(rest, "@"); isURL {
		if strings.TrimSpace(url) == "" {
			return fmt.Sprintf("%q has no address behind @", line), "write it there, as in name @ https://..."
		}
		return "", ""
	}
	wanted, marker, marked := strings.Cut(rest, ";")
	wanted = strings.TrimSpace(wanted)
	switch {
	case onlyVersions.MatchString(wanted):
	case oneEquals.MatchString(wanted):
		return fmt.Sprintf("%q has one =", line), "write == before a version"
	case noVersion.MatchString(wanted):
		return fmt.Sprintf("%q lacks a version", line), "write it behind the " + strings.Trim(noVersion.FindString(wanted), " ,)")
	case strings.HasPrefix(wanted, "["):
		return fmt.Sprintf("%q has a list in [ ] that is not right", line), "write extras as in ray[tune,serve]"
	default:
		return fmt.Sprintf("%q goes on with %q behind the package, which is no version", line, wanted), likeThis
	}
	if marked && strings.TrimSpace(marker) != "" && !isMarker(marker) {
		return fmt.Sprintf("%q has a condition behind ; that is not right", line), `write it as in ; python_version < "3.13"`
	}
	return "", ""
}

// isMarker reports whether a text is a condition of PEP 508: comparisons with and, or, and brackets.
func isMarker(text string) bool {
	var tokens []string
	for strings.TrimSpace(text) != "" {
		m := markerToken.FindStringSubmatch(text)
		if m == nil {
			return false
		}
		tokens, text = append(tokens, m[1]), text[len(m[0]):]
	}
	rest, ok := condition(tokens)
	return ok && len(rest) == 0
}

// condition takes a condition from the tokens.
func condition(tokens []string) (rest []string, ok bool) {
	for {
		if tokens, ok = comparison(tokens); !ok {
			return nil, false
		}
		if len(tokens) == 0 || tokens[0] != "and" && tokens[0] != "or" {
			return tokens, true
		}
		tokens = tokens[1:]
	}
}

// comparison takes a comparison, or a condition in brackets.
func comparison(tokens []string) (rest []string, ok bool) {
	if len(tokens) > 0 && tokens[0] == "(" {
		rest, ok = condition(tokens[1:])
		if !ok || len(rest) == 0 || rest[0] != ")" {
			return nil, false
		}
		return rest[1:], true
	}
	if len(tokens) > 2 && tokens[1] == "not" && tokens[2] == "in" {
		tokens = append([]string{tokens[0]}, tokens[2:]...)
	}
	if len(tokens) < 3 || !isOperand(tokens[0]) || !strings.ContainsAny(tokens[1][:1], "<>=!~") && tokens[1] != "in" || !isOperand(tokens[2]) {
		return nil, false
	}
	return tokens[3:], true
}

func isOperand(token string) bool {
	return strings.Trim(token[:1], `<>=!~()`) != "" && token != "and" && token != "or" && token != "not" && token != "in"
}

// checkLines refuses the lines of a file, or of a list where in is "", that no installer takes.
func (r *requirementsReader) checkLines(text, in string) error {
	for _, l := range logical(text) {
		if option, name := spec.IncludedFile(l.text); name != "" && !strings.HasPrefix(strings.TrimLeft(option, "-"), "c") {
			continue
		}
		cause, hint := wrongLine(l.text)
		if cause == "" {
			continue
		}
		if in != "" {
			cause = fmt.Sprintf("%s:%d: ", spec.Printable(in), l.number) + cause
		}
		return &spec.Error{Path: r.key, Msg: cause, Hint: hint}
	}
	return nil
}
