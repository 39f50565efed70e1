package spec

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Error is one problem of a cluster file, as one sentence with a next step.
type Error struct {
	// File and Line locate the value; Line is 0 if it has none. File may also be a flag or a variable.
	File string
	Line int
	// Path is the key, such as workers.trainer.replicas; it may be empty for errors of the whole file.
	Path string
	// Msg is the cause and Hint the next step, which may be empty.
	Msg  string
	Hint string
}

// Error is "FILE:LINE: PATH: cause: next step", without the missing parts.
func (e *Error) Error() string {
	parts := make([]string, 0, 4)
	switch {
	case e.File != "" && e.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", e.File, e.Line))
	case e.File != "":
		parts = append(parts, e.File)
	}
	for _, s := range []string{e.Path, e.Msg, e.Hint} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ": ")
}

// Errors lists all problems of a cluster file, in the order of its fields.
type Errors []*Error

func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find a single *Error.
func (es Errors) Unwrap() []error {
	out := make([]error, len(es))
	for i, e := range es {
		out[i] = e
	}
	return out
}

// AsErrors lists the spec errors contained in err; nil if it is of another kind.
func AsErrors(err error) Errors {
	var es Errors
	if errors.As(err, &es) {
		return es
	}
	var e *Error
	if errors.As(err, &e) {
		return Errors{e}
	}
	return nil
}

// orNil avoids a typed nil.
func (es Errors) orNil() error {
	if len(es) == 0 {
		return nil
	}
	return es
}

// unknownKey is the error of a key that t does not have, with the nearest key, or the section of that key.
func unknownKey(e entry, path string, t reflect.Type) *Error {
	names := fieldNames(t)
	hint := ""
	_, hasMin := findField(t, "minReplicas")
	if bound := map[string]string{"min": "minReplicas", "max": "maxReplicas"}[strings.ToLower(e.key)]; hasMin && bound != "" {
		hint = "did you mean \"" + bound + "\"?"
	} else if instead := insteadOf(e.key); instead != "" {
		hint = instead
	} else if _, top := findField(reflect.TypeFor[ClusterSpec](), e.key); top && e.origin.Source == "--set" {
		hint = "use --set " + e.key + "=VALUE"
	} else if near := Nearest(e.key, names); near != "" {
		hint = "did you mean \"" + near + "\"?"
	} else if place := cmp.Or(elsewhere(e.key), elsewhere(camelCase(e.key))); place != "" {
		hint = place
	} else if place := meantKey(e.key, names); place != "" {
		hint = place
	} else if len(names) <= 14 {
		hint = "the keys here are " + strings.Join(names, ", ")
	} else {
		hint = "`rayctl schema` lists the keys with their meaning"
	}
	return e.origin.errorf(path, hint, "unknown key %q", e.key)
}

// camelCase is a key that is written with _ or -, such as runtime_env or runtime-env, as keys are written here.
func camelCase(key string) string {
	words := strings.FieldsFunc(key, func(r rune) bool { return r == '_' || r == '-' })
	for i, w := range words {
		if w = strings.ToLower(w); i > 0 {
			w = strings.ToUpper(w[:1]) + w[1:]
		}
		words[i] = w
	}
	return strings.Join(words, "")
}

// elsewhere names the place in the file where a key of this name belongs; "" if there is none.
func elsewhere(key string) string {
	if _, ok := findField(reflect.TypeFor[ClusterSpec](), key); ok {
		return "it belongs at the top level of the file, without indentation"
	}
	best := ""
	walkFields(reflect.TypeFor[ClusterSpec](), "", func(path string, _ reflect.Type) {
		if strings.HasSuffix(path, "."+key) && (best == "" || strings.Count(path, ".") < strings.Count(best, ".")) {
			best = path
		}
	})
	if _, ok := findField(reflect.TypeFor[WorkerGroup](), key); ok && (best == "" || strings.HasPrefix(best, "head.")) {
		best = "workers[]." + key
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// meantKey is the hint for a key that is called otherwise here; "" if it is unknown.
func meantKey(key string, here []string) string {
	name := meaningOf(key)
	switch {
	case name == "":
		return ""
	case slices.Contains(here, name):
		return "did you mean \"" + name + "\"?"
	}
	if _, top := findField(reflect.TypeFor[ClusterSpec](), name); top {
		return "did you mean \"" + name + "\", which belongs at the top level of the file, without indentation?"
	}
	return elsewhere(name)
}
