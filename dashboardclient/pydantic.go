package dashboardclient

import (
	"regexp"
	"strings"
)

var (
	// pydantic2Head begins the text of pydantic 2: "2 validation errors for ServeDeploySchema". For each a line with the place follows, an indented one with the message
	// and the kind in brackets, and maybe one with a link.
	pydantic2Head = regexp.MustCompile(`^\d+ validation errors? for \w+\n`)
	pydantic2Kind = regexp.MustCompile(` \[type=\w+, input_value=.*$`)
	// pydantic1Error is an error in the text of pydantic 1, a Python list: {'loc': ('applications', 0, 'name'), 'msg': 'field required', 'type': 'value_error.missing'}.
	pydantic1Error = regexp.MustCompile(`\{'loc': \(([^)]*)\), 'msg': (?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"), 'type': `)
	pydantic1Part  = regexp.MustCompile(`'([^']*)'|(\d+)`)
)

// pydanticErrors returns the errors of a text, each as "applications[0].name: field required"; none: the text is not pydantic's.
func pydanticErrors(text string) []string {
	if begin := pydantic2Head.FindString(text); begin != "" {
		return pydantic2(text[len(begin):])
	}
	if strings.HasPrefix(text, "ValidationError(model=") {
		return pydantic1(text)
	}
	return nil
}

// pydantic2 reads pydantic 2.
func pydantic2(text string) (errs []string) {
	place := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "    "):
		case !strings.HasPrefix(line, " "):
			place = yamlPath(strings.Split(line, "."))
		case place != "":
			errs = append(errs, place+": "+lowerFirst(strings.TrimPrefix(pydantic2Kind.ReplaceAllString(strings.TrimSpace(line), ""), "Value error, ")))
			place = ""
		}
	}
	return errs
}

// pydantic1 reads pydantic 1. Its errors about the whole document follow from the others.
func pydantic1(text string) (errs []string) {
	for _, m := range pydantic1Error.FindAllStringSubmatch(text, -1) {
		var path []string
		for _, p := range pydantic1Part.FindAllStringSubmatch(m[1], -1) {
			if p[1] != "__root__" {
				path = append(path, p[1]+p[2])
			}
		}
		if len(path) > 0 {
			errs = append(errs, yamlPath(path)+": "+lowerFirst(unescape.Replace(m[2]+m[3])))
		}
	}
	return errs
}

var unescape = strings.NewReplacer(`\'`, `'`, `\"`, `"`, `\\`, `\`, `\n`, " ")

// yamlPath writes a place as it is written in YAML tools: applications[0].name.
func yamlPath(path []string) string {
	var b strings.Builder
	for i, p := range path {
		switch {
		case strings.Trim(p, "0123456789") == "":
			b.WriteString("[" + p + "]")
		case i > 0:
			b.WriteString("." + p)
		default:
			b.WriteString(p)
		}
	}
	return b.String()
}

// lowerFirst makes a message a part of a sentence.
func lowerFirst(message string) string {
	message = strings.TrimSuffix(message, ".")
	if len(message) > 1 && message[1] >= 'a' && message[1] <= 'z' {
		return strings.ToLower(message[:1]) + message[1:]
	}
	return message
}
