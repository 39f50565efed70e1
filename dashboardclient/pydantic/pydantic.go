// Package pydantic reads the errors of Python's pydantic about a document that it refuses.
package pydantic

import (
	"regexp"
	"strings"
)

var (
	// head begins the text of pydantic 2: "2 validation errors for ServeDeploySchema". For each a line with the place follows, an indented one with the message
	// and the kind in brackets, and maybe one with a link.
	head = regexp.MustCompile(`^\d+ validation errors? for \w+\n`)
	kind = regexp.MustCompile(` \[type=\w+, input_value=.*$`)
	// one is an error in the text of pydantic 1, a Python list: {'loc': ('applications', 0, 'name'), 'msg': 'field required', 'type': 'value_error.missing'}.
	one  = regexp.MustCompile(`\{'loc': \(([^)]*)\), 'msg': (?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"), 'type': `)
	part = regexp.MustCompile(`'([^']*)'|(\d+)`)
)

// Errors returns the errors of a text, each as "applications[0].name: field required"; none: the text is not pydantic's.
func Errors(text string) []string {
	if begin := head.FindString(text); begin != "" {
		return second(text[len(begin):])
	}
	if strings.HasPrefix(text, "ValidationError(model=") {
		return first(text)
	}
	return nil
}

// second reads pydantic 2.
func second(text string) (errs []string) {
	place := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		switch {
		case line == "" || strings.HasPrefix(line, "    "):
		case !strings.HasPrefix(line, " "):
			place = join(strings.Split(line, "."))
		case place != "":
			errs = append(errs, place+": "+lower(strings.TrimPrefix(kind.ReplaceAllString(strings.TrimSpace(line), ""), "Value error, ")))
			place = ""
		}
	}
	return errs
}

// first reads pydantic 1. Its errors about the whole document follow from the others.
func first(text string) (errs []string) {
	for _, m := range one.FindAllStringSubmatch(text, -1) {
		var path []string
		for _, p := range part.FindAllStringSubmatch(m[1], -1) {
			if p[1] != "__root__" {
				path = append(path, p[1]+p[2])
			}
		}
		if len(path) > 0 {
			errs = append(errs, join(path)+": "+lower(unescape.Replace(m[2]+m[3])))
		}
	}
	return errs
}

var unescape = strings.NewReplacer(`\'`, `'`, `\"`, `"`, `\\`, `\`, `\n`, " ")

// join writes a place as it is written in YAML tools: applications[0].name.
func join(path []string) string {
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

// lower makes a message a part of a sentence.
func lower(message string) string {
	message = strings.TrimSuffix(message, ".")
	if len(message) > 1 && message[1] >= 'a' && message[1] <= 'z' {
		return strings.ToLower(message[:1]) + message[1:]
	}
	return message
}
