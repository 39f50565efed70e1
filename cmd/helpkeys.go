package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher/spec/schema"
)

// plainPath is a key's path as people write it: workers[].gpus is workers.gpus.
var plainPath = strings.NewReplacer("[]", "", ".NAME", "")

// helpKeys writes what the reference of the cluster file says of a key, or of all keys with this last name, and reports whether there is one.
func helpKeys(w io.Writer, word string) (found bool, err error) {
	for _, whole := range []bool{true, false} {
		for _, section := range schema.Reference() {
			for _, f := range section.Fields {
				if !isKey(f, word, whole) {
					continue
				}
				if err := writeKey(w, f); err != nil {
					return true, err
				}
				found = true
			}
		}
		if found {
			break
		}
	}
	return found, nil
}

// isKey reports whether a key has this whole path, or this last name.
func isKey(f schema.FieldDoc, word string, whole bool) bool {
	if whole {
		return strings.EqualFold(f.Path, word) || strings.EqualFold(plainPath.Replace(f.Path), word)
	}
	return strings.EqualFold(f.Key, word)
}

// writeKey writes one key, and the keys of the map that it has.
func writeKey(w io.Writer, f schema.FieldDoc) error {
	head := f.Path + " (" + f.Type
	if f.Default != "" {
		head += "; default: " + f.Default
	}
	lines := []string{head + ")", "  " + f.Text}
	if flag := config.FlagOf(f.Path); flag != "" {
		lines = append(lines, "  Flag: --"+flag)
	}
	for _, section := range schema.Reference() {
		if section.Path != "" && plainPath.Replace(section.Path) == plainPath.Replace(f.Path) {
			var keys []string
			for _, below := range section.Fields {
				keys = append(keys, below.Key)
			}
			lines = append(lines, fmt.Sprintf("  Keys: %s. `rayctl help %s.%s` explains one", strings.Join(keys, ", "), plainPath.Replace(f.Path), keys[0]))
		}
	}
	for _, line := range lines {
		if err := terminal.WriteHelp(w, line); err != nil {
			return err
		}
	}
	return nil
}
