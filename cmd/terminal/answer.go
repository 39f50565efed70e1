package terminal

import (
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

// WriteYAML writes an answer as YAML.
func WriteYAML(w io.Writer, v any) error {
	data, err := yaml.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	_, err = w.Write(data)
	return err
}

// NonNil makes an empty JSON list of no rows, instead of null.
func NonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
