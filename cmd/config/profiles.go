package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// profileSet holds profiles by name.
type profileSet map[string]*spec.Document

func (ps profileSet) get(name string) *spec.Document { return ps[name] }

// addFrom moves the profiles of a document into the set.
func (ps profileSet) addFrom(d *spec.Document) error {
	all, err := d.Take(spec.ProfilesKey)
	if err != nil || all == nil {
		return err
	}
	for _, name := range all.Keys() {
		p, err := all.Take(name)
		if err != nil {
			return err
		}
		if p.Has(spec.ProfilesKey) {
			return &spec.Error{Path: "profiles." + name, Msg: "a profile holds profiles", Hint: "write the keys of the inner profiles into this one"}
		}
		p.SetProfile(name)
		ps[name] = p
	}
	return nil
}

func (ps profileSet) unknown(name, source string) error {
	names := slices.Sorted(maps.Keys(ps))
	hint := "the profiles are " + strings.Join(names, ", ")
	if near := spec.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	} else if len(names) == 0 {
		hint = "there are none; write some under profiles: in rayctl.yaml or ~/.config/rayctl/config.yaml"
	}
	return &spec.Error{File: source, Msg: fmt.Sprintf("there is no profile %q", name), Hint: hint}
}
