package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
)

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
