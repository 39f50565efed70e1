package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

// Origin is the place that a value came from.
type Origin struct {
	// Source is the file, "flag --name", "RAYCTL_NAME" or "default".
	Source string `json:"source"`
	// Line is the line in the file; 0 where there is none.
	Line int `json:"line,omitempty"`
	// Profile is the profile that the value is part of; empty outside profiles.
	Profile string `json:"profile,omitempty"`
	// Dir is the folder that relative paths are relative to.
	Dir string `json:"-"`
}

// String is "FILE:LINE", "FILE:LINE (profile NAME)" or the source alone.
func (o Origin) String() string {
	s := o.Source
	if o.Line > 0 {
		s = fmt.Sprintf("%s:%d", s, o.Line)
	}
	if o.Profile != "" {
		s += " (profile " + o.Profile + ")"
	}
	return s
}

func (o Origin) errorf(path, hint, format string, args ...any) *Error {
	return &Error{File: o.Source, Line: o.Line, Path: path, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

type kind int

const (
	scalarKind kind = iota
	listKind
	objectKind
)

func (k kind) String() string { return [...]string{"a single value", "a list", "a map"}[k] }

// node is a parsed YAML value with its origin; aliases are resolved, keys unique and in order.
type node struct {
	kind    kind
	tag     string // of scalars: !!str, !!int, !!float, !!bool, !!null
	text    string // of scalars, as written; of a list of requirements whose first item is a requirements file: that file
	items   []*node
	entries []entry
	origin  Origin
}

type entry struct {
	key    string
	origin Origin // of the key
	value  *node
}

func (n *node) isNull() bool { return n.kind == scalarKind && n.tag == "!!null" }

// isEmpty reports whether the node says nothing: null, an empty text, or no items or entries.
func (n *node) isEmpty() bool {
	return n.isNull() || n.text == "" && len(n.items)+len(n.entries) == 0
}

func textNode(text string, o Origin) *node {
	return &node{kind: scalarKind, tag: "!!str", text: text, origin: o}
}

func (n *node) get(key string) *node {
	for _, e := range n.entries {
		if e.key == key {
			return e.value
		}
	}
	return nil
}

func (n *node) put(key string, o Origin, v *node) {
	for i, e := range n.entries {
		if e.key == key {
			n.entries[i] = entry{key, o, v}
			return
		}
	}
	n.entries = append(n.entries, entry{key, o, v})
}

func (n *node) remove(key string) *node {
	for i, e := range n.entries {
		if e.key == key {
			n.entries = slices.Delete(slices.Clone(n.entries), i, i+1)
			return e.value
		}
	}
	return nil
}

// eachOrigin changes the origins of the node, its keys and all below.
func (n *node) eachOrigin(change func(*Origin)) {
	change(&n.origin)
	for _, it := range n.items {
		it.eachOrigin(change)
	}
	for i := range n.entries {
		change(&n.entries[i].origin)
		n.entries[i].value.eachOrigin(change)
	}
}

// named finds the list item of that name.
func (n *node) named(name string) *node {
	for _, it := range n.items {
		if it.itemName() == name {
			return it
		}
	}
	return nil
}

// itemName is the text of the item's name key, or "".
func (n *node) itemName() string {
	if v := n.get("name"); v != nil && v.kind == scalarKind && !v.isNull() {
		return v.text
	}
	return ""
}

// describe names a node's type for an error message.
func (n *node) describe() string {
	if n.kind != scalarKind {
		return n.kind.String()
	}
	switch n.tag {
	case "!!null":
		return "empty"
	case "!!int", "!!float":
		return n.text + ", a number"
	case "!!bool":
		return n.text + ", true or false"
	default:
		return strconv.Quote(n.text)
	}
}

// plain is the value as encoding/json decodes it, but with whole numbers as int64, as in Kubernetes' unstructured objects.
func (n *node) plain() (any, error) {
	switch n.kind {
	case listKind:
		out := make([]any, 0, len(n.items))
		for _, it := range n.items {
			v, err := it.plain()
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case objectKind:
		out := make(map[string]any, len(n.entries))
		for _, e := range n.entries {
			v, err := e.value.plain()
			if err != nil {
				return nil, err
			}
			out[e.key] = v
		}
		return out, nil
	default:
		return n.plainScalar()
	}
}

func (n *node) plainScalar() (any, error) {
	switch n.tag {
	case "!!null":
		return nil, nil
	case "!!bool":
		return n.text == "true" || n.text == "True" || n.text == "TRUE", nil
	case "!!int":
		if i, err := strconv.ParseInt(n.text, 0, 64); err == nil {
			return i, nil
		}
		return n.number()
	case "!!float":
		return n.number()
	default:
		return n.text, nil
	}
}

func (n *node) number() (any, error) {
	f, err := strconv.ParseFloat(n.text, 64)
	if err != nil || f != f || f-f != 0 {
		return nil, fmt.Errorf("%s is not a finite number", n.text)
	}
	return f, nil
}

// Join appends a key, or a list item's name, to a path.
func Join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func itemPath(path string, i int, it *node) string {
	if name := it.itemName(); name != "" {
		return Join(path, name)
	}
	if path == "secrets" && it.kind == scalarKind {
		return Join(path, it.text) // a plain string is the secret's name
	}
	return fmt.Sprintf("%s[%d]", path, i)
}

// Leaf is one single value of a spec.
type Leaf struct {
	// Path is the key, with list items by name, else by index: workers.trainer.replicas, mounts[0].mountPath.
	Path string `json:"path"`
	// Value is the value as it is written.
	Value string `json:"value"`
}

// Leaves lists all single values that are set, in the order of the fields. Secrets' values are not part of a spec.
func Leaves(s *ClusterSpec) ([]Leaf, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write the cluster file as JSON: %w", err)
	}
	root, err := parseJSON(json.NewDecoder(bytes.NewReader(b)))
	if err != nil {
		return nil, fmt.Errorf("read the cluster file back: %w", err)
	}
	var out []Leaf
	leaves(root, "", func(path string, n *node) {
		if n.kind == scalarKind {
			out = append(out, Leaf{path, n.text})
		}
	})
	return out, nil
}

// parseJSON reads a value with its keys in order. The YAML parser is not used because it refuses some characters that JSON allows.
func parseJSON(dec *json.Decoder) (*node, error) {
	dec.UseNumber()
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch x := t.(type) {
	case json.Delim:
		return parseJSONBelow(dec, x)
	case string:
		return &node{kind: scalarKind, tag: "!!str", text: x}, nil
	case nil:
		return &node{kind: scalarKind, tag: "!!null"}, nil
	default:
		text := fmt.Sprint(x)
		return &node{kind: scalarKind, tag: inferTag(text), text: text}, nil
	}
}

// parseJSONBelow reads what follows [ or {.
func parseJSONBelow(dec *json.Decoder, open json.Delim) (*node, error) {
	n := &node{kind: listKind}
	if open == '{' {
		n.kind = objectKind
	}
	for dec.More() {
		key := ""
		if n.kind == objectKind {
			t, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key = t.(string)
		}
		v, err := parseJSON(dec)
		if err != nil {
			return nil, err
		}
		if n.kind == objectKind {
			n.entries = append(n.entries, entry{key: key, value: v})
		} else {
			n.items = append(n.items, v)
		}
	}
	_, err := dec.Token()
	return n, err
}
