package spec

import (
	"errors"
	"fmt"
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
