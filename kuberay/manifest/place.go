package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/launcher/spec"
)

// wrongValue is the error of decoding a document: where a value is of the wrong kind, it names line and path, and what the value must be.
func wrongValue(file string, data []byte, o object, into any, err error) error {
	out := &spec.Error{File: file, Msg: err.Error(), Hint: compare}
	var kind *json.UnmarshalTypeError
	if !errors.As(json.Unmarshal(o.text, into), &kind) { // kjson's own error hides the place
		return out
	}
	path := pathAt(o.text, kind.Offset)
	out.Path, out.Line = shown(path), lineOf(data, o.index, path)
	out.Msg = fmt.Sprintf("must be %s, not %s", wanted(kind.Type), given(kind.Value))
	if kind.Type.Kind() == reflect.String && (strings.HasPrefix(kind.Value, "number") || kind.Value == "bool") {
		out.Hint = "write it in quotes"
	}
	return out
}

// wanted is what a value of a Go type is in YAML.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "a map of keys"
	case reflect.Pointer:
		return wanted(t.Elem())
	default:
		return "a number"
	}
}

// given is what encoding/json calls a value.
func given(value string) string {
	name, rest, _ := strings.Cut(value, " ")
	switch name {
	case "string":
		return "a text"
	case "bool":
		return "true or false"
	case "array":
		return "a list"
	case "object":
		return "a map of keys"
	}
	return strings.TrimSpace("a number " + rest)
}

// pathAt is the path of the value that JSON text has at an offset: keys, and numbers in lists.
func pathAt(text []byte, offset int64) (path []any) {
	dec := json.NewDecoder(bytes.NewReader(text))
	var expectKey []bool // one for each open map or list; true in a map before a key
	isList := func() bool { _, ok := path[len(path)-1].(int); return ok }
	next := func() { // after a value
		if len(path) == 0 {
			return
		}
		if n, ok := path[len(path)-1].(int); ok {
			path[len(path)-1] = n + 1
		} else {
			expectKey[len(expectKey)-1] = true
		}
	}
	for {
		token, err := dec.Token()
		if err != nil {
			return nil
		}
		delim, isDelim := token.(json.Delim)
		switch {
		case isDelim && (delim == '}' || delim == ']'):
			path, expectKey = path[:len(path)-1], expectKey[:len(expectKey)-1]
			if dec.InputOffset() >= offset {
				return path
			}
			next()
		case len(path) > 0 && !isList() && expectKey[len(expectKey)-1]:
			path[len(path)-1], expectKey[len(expectKey)-1] = token, false
		case dec.InputOffset() >= offset:
			return path
		case isDelim && delim == '{':
			path, expectKey = append(path, ""), append(expectKey, true)
		case isDelim:
			path, expectKey = append(path, 0), append(expectKey, false)
		default:
			next()
		}
	}
}

// shown is a path as messages have it: spec.workerGroupSpecs[0].replicas.
func shown(path []any) string {
	out := ""
	for _, step := range path {
		if n, ok := step.(int); ok {
			out += "[" + strconv.Itoa(n) + "]"
		} else {
			out = spec.Join(out, fmt.Sprint(step))
		}
	}
	return spec.Printable(out)
}

// lineOf is the line of a value in a file, by the number of its document among those that are not empty, and its path; 0 if it is not found.
func lineOf(data []byte, document int, path []any) int {
	if n := nodeAt(data, document, path); n != nil {
		return n.Line
	}
	return 0
}

// nodeAt is the value at that place; nil if it is not found.
func nodeAt(data []byte, document int, path []any) *yaml.Node {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var root yaml.Node
		if dec.Decode(&root) != nil {
			return nil
		}
		if len(root.Content) == 0 || root.Content[0].Tag == "!!null" {
			continue
		}
		if document > 0 {
			document--
			continue
		}
		n := root.Content[0]
		for _, step := range path {
			if n = below(n, step); n == nil {
				return nil
			}
		}
		return n
	}
}

// below is a node's value of a key, or item of a number.
func below(n *yaml.Node, step any) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if i, ok := step.(int); ok && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i+1]
		}
	}
	return nil
}
