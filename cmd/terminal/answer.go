package terminal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// WriteJSON writes an answer as JSON.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(CleanJSON(w))
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// WriteYAML writes an answer as YAML. The library escapes control characters, but not those that change the direction of writing: they become Go escapes.
func WriteYAML(w io.Writer, v any) error {
	document := &bytes.Buffer{}
	err := json.NewEncoder(CleanJSON(document)).Encode(v) // the library refuses JSON with unescaped control characters, and encoding/json escapes only some
	var data []byte
	if err == nil {
		data, err = yaml.JSONToYAML(document.Bytes())
	}
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	_, err = io.WriteString(w, Clean(string(data)))
	return err
}

// NonNil returns an empty list for nil, which JSON would have as null instead of [].
func NonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
