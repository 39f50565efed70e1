// Package newer carries fields that rayctl's own KubeRay and Kubernetes types do not have, from a manifest to the object that is created.
package newer

import (
	"errors"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// Path leads to a field: keys, and numbers in lists.
type Path []any

// Field is one that a Go type does not have, with its value.
type Field struct {
	Path  Path
	Value any
}

// Decode decodes JSON as the API server does, and returns the paths of the fields that the type does not have.
func Decode(text []byte, into any) (unknown []Path, err error) {
	found, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return nil, err
	}
	for _, err := range found {
		var field kjson.FieldError
		if errors.As(err, &field) {
			unknown = append(unknown, steps(field.FieldPath()))
		}
	}
	return unknown, nil
}

// Fields are those of the paths that are in a value, of JSON's types.
func Fields(value any, paths []Path) (out []Field) {
	for _, p := range paths {
		if parent, ok := at(value, p[:len(p)-1]).(map[string]any); ok {
			if v, ok := parent[last(p)]; ok {
				out = append(out, Field{p, v})
			}
		}
	}
	return out
}

// Into adds the fields to a value, where it has what they were in.
func Into(value any, fields []Field) {
	for _, f := range fields {
		if parent, ok := at(value, f.Path[:len(f.Path)-1]).(map[string]any); ok {
			parent[last(f.Path)] = f.Value
		}
	}
}

func last(p Path) string {
	key, _ := p[len(p)-1].(string) // fields are not in lists
	return key
}

func at(value any, path Path) any {
	for _, step := range path {
		switch v := value.(type) {
		case map[string]any:
			key, _ := step.(string)
			value = v[key]
		case []any:
			i, ok := step.(int)
			if !ok || i >= len(v) {
				return nil
			}
			value = v[i]
		default:
			return nil
		}
	}
	return value
}

// steps are those of a path as sigs.k8s.io/json writes it: spec.workerGroupSpecs[0].replicas.
func steps(path string) (out Path) {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' }) {
		if n, err := strconv.Atoi(strings.TrimSuffix(part, "]")); err == nil && strings.HasSuffix(part, "]") {
			out = append(out, n)
		} else {
			out = append(out, part)
		}
	}
	return out
}
