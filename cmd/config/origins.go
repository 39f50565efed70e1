package config

import (
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Origins map a key to the place that sets it. Missing keys have their default.
type Origins map[string]spec.Origin

const originDefault = "default"

// Value is one value of the configuration in force, for `render --origin`.
type Value struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Values lists all values in force with their origins, in the order of the reference. An origin is FILE:LINE, FILE:LINE (profile NAME),
// --FLAG, RAYCTL_VARIABLE or default.
func (l *Loaded) Values() ([]Value, error) {
	ls, err := spec.Leaves(l.Spec)
	if err != nil {
		return nil, err
	}
	out := make([]Value, len(ls))
	for i, leaf := range ls {
		out[i] = Value{leaf.Path, leaf.Value, l.Origins.of(leaf.Path)}
	}
	return out, nil
}

func (all Origins) of(path string) string {
	if o, ok := all[path]; ok {
		return o.String()
	}
	if o, ok := all[inShort(path)]; ok && !all.below(inShort(path)) {
		return o.String()
	}
	return originDefault
}

// inShort is the item that a single text can stand for, of which path is a part: a secret is then its name, a mount the same directory everywhere.
func inShort(path string) string {
	if item, _, ok := strings.Cut(path, "]."); ok && strings.HasPrefix(path, "mounts[") {
		return item + "]"
	}
	if strings.HasPrefix(path, "secrets.") {
		return strings.TrimSuffix(path, ".name")
	}
	return ""
}

// below reports whether a part of the item was set by itself.
func (all Origins) below(item string) bool {
	for path := range all {
		if strings.HasPrefix(path, item+".") {
			return true
		}
	}
	return false
}

// Locate adds the place that sets a path, or a part of it, to errors of Validate.
func (all Origins) Locate(err error) error {
	for _, e := range spec.AsErrors(err) {
		if e.File != "" {
			continue
		}
		if o, ok := all.nearest(e.Path); ok {
			e.File, e.Line = o.Source, o.Line
		}
	}
	return err
}

func (all Origins) nearest(path string) (spec.Origin, bool) {
	for path != "" {
		if o, ok := all[path]; ok {
			return o, true
		}
		i := max(strings.LastIndexByte(path, '.'), strings.LastIndexByte(path, '['))
		if i < 0 {
			return spec.Origin{}, false
		}
		path = path[:i]
	}
	return spec.Origin{}, false
}
