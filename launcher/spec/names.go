package spec

import (
	"regexp"
	"strings"
)

// runSuffix is the length of a run's suffix: a dash and five characters.
const runSuffix = 6

var notLabel = regexp.MustCompile(`[^a-z0-9]+`)

// NameFrom makes a cluster's name from any text, such as a folder's name: a DNS label with room for a run's suffix.
func NameFrom(text string) string {
	name := strings.Trim(notLabel.ReplaceAllString(strings.ToLower(text), "-"), "-")
	if len(name) > MaxNameLength-runSuffix {
		name = strings.TrimRight(name[:MaxNameLength-runSuffix], "-")
	}
	if name == "" {
		return "ray"
	}
	return name
}
