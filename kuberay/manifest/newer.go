package manifest

import (
	"errors"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// NewerPath leads to a field: keys, and numbers in lists.
type NewerPath []any

// NewerField is one that rayctl's own KubeRay and Kubernetes types do not have, with its value: it is carried from a manifest to the object that is created.
type NewerField struct {
	Path  NewerPath
	Value any
}

// DecodeNewer decodes JSON as the API server does, and returns the paths of the fields that the type does not have.
func DecodeNewer(text []byte, into any) (unknown []NewerPath, err error) {
	found, err := kjson.UnmarshalStrict(text, into)
	if err != nil {
		return nil, err
	}
	for _, err := range found {
		var field kjson.FieldError
		if errors.As(err, &field) {
			unknown = append(unknown, stepsOf(field.FieldPath()))
		}
	}
	return unknown, nil
}

// NewerFields are those of the paths that are in a value, of JSON's types.
func NewerFields(value any, paths []NewerPath) (out []NewerField) {
	for _, p := range paths {
		if parent, ok := valueAt(value, p[:len(p)-1]).(map[string]any); ok {
			if v, ok := parent[lastStep(p)]; ok {
				out = append(out, NewerField{p, v})
			}
		}
	}
	return out
}

// SetNewer adds the fields to a value, where it has what they were in.
func SetNewer(value any, fields []NewerField) {
	for _, f := range fields {
		if parent, ok := valueAt(value, f.Path[:len(f.Path)-1]).(map[string]any); ok {
			parent[lastStep(f.Path)] = f.Value
		}
	}
}

func lastStep(p NewerPath) string {
	key, _ := p[len(p)-1].(string) // fields are not in lists
	return key
}

func valueAt(value any, path NewerPath) any {
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

// stepsOf are those of a path as sigs.k8s.io/json writes it: spec.workerGroupSpecs[0].replicas.
func stepsOf(path string) (out NewerPath) {
	for _, part := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' }) {
		if n, err := strconv.Atoi(strings.TrimSuffix(part, "]")); err == nil && strings.HasSuffix(part, "]") {
			out = append(out, n)
		} else {
			out = append(out, part)
		}
	}
	return out
}
