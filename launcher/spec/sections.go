package spec

import (
	"encoding/json"
	"maps"
	"reflect"
)

// Sections are the keys that launchers add to a part of the file, by launcher: a pointer to the struct that the launcher registered for that part.
type Sections map[string]any

var sectionsType = reflect.TypeFor[Sections]()

// Section returns the keys of the type T; nil if the file has none of them.
func Section[T any](s Sections) *T {
	for _, v := range s {
		if keys, ok := v.(*T); ok {
			return keys
		}
	}
	return nil
}

// has reports whether a key of the launcher is set, even to an empty section.
func (s Sections) has(launcher string) bool {
	keys, ok := s[launcher]
	return ok && !reflect.ValueOf(keys).Elem().IsZero()
}

// With returns the Sections with a launcher's keys: a pointer to the struct that it registered for this part of the file.
func (s Sections) With(launcher string, keys any) Sections {
	out := Sections{launcher: keys}
	for name, other := range s {
		if name != launcher {
			out[name] = other
		}
	}
	return out
}

// isZero reports whether no key is set.
func (s Sections) isZero() bool {
	for _, v := range s {
		if !reflect.ValueOf(v).Elem().IsZero() {
			return false
		}
	}
	return true
}

// keep drops the keys of all launchers but one.
func (s Sections) keep(launcher string) {
	maps.DeleteFunc(s, func(name string, _ any) bool { return name != launcher })
}

// in returns the field's value in the struct v. A launcher's key makes the launcher's keys there, if v has none of them.
func (f field) in(v reflect.Value) reflect.Value {
	v = v.FieldByIndex(f.index)
	if f.launcherType == nil {
		return v
	}
	sections := v.Interface().(Sections)
	if sections == nil {
		sections = Sections{}
		v.Set(reflect.ValueOf(sections))
	}
	if sections[f.launcher] == nil {
		sections[f.launcher] = reflect.New(f.launcherType).Interface()
	}
	return reflect.ValueOf(sections[f.launcher]).Elem().FieldByIndex(f.launcherIndex)
}

// The JSON form has the launchers' keys among the file's own, at the place of the field Sections. encoding/json inlines structs, but no map: so every struct
// with Sections joins its own keys, which type own has without this method, and theirs.

// MarshalJSON writes the launchers' keys, by their Order.
func (s Sections) MarshalJSON() ([]byte, error) {
	var all []any
	for _, l := range registered {
		if keys := s[l.Name]; keys != nil {
			all = append(all, keys)
		}
	}
	return joined(all...)
}

// MarshalJSON writes the file with the launchers' sections.
func (s ClusterSpec) MarshalJSON() ([]byte, error) {
	type own ClusterSpec
	last := struct {
		GPUTypes map[string]GPUType `json:"gpuTypes,omitempty"`
	}{s.GPUTypes}
	s.GPUTypes = nil
	return joined(own(s), s.Sections, last)
}

// UnmarshalJSON reads what MarshalJSON writes. Unknown keys are ignored.
func (s *ClusterSpec) UnmarshalJSON(b []byte) error {
	type own ClusterSpec
	return split(b, (*own)(s), &s.Sections, "cluster")
}

// MarshalJSON writes the head with what launchers add.
func (h Head) MarshalJSON() ([]byte, error) {
	type own Head
	return joined(own(h), h.Sections)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Head) UnmarshalJSON(b []byte) error {
	type own Head
	return split(b, (*own)(h), &h.Sections, "node")
}

// IsZero reports whether no key is set; encoding/json then leaves the head out.
func (h Head) IsZero() bool {
	none := h.Sections.isZero()
	h.Sections = nil
	return none && reflect.ValueOf(h).IsZero()
}

// MarshalJSON writes the group with what launchers add.
func (g WorkerGroup) MarshalJSON() ([]byte, error) {
	type own WorkerGroup
	return joined(own(g), g.Sections)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (g *WorkerGroup) UnmarshalJSON(b []byte) error {
	type own WorkerGroup
	return split(b, (*own)(g), &g.Sections, "node")
}

// MarshalJSON writes the sources by launcher.
func (m MountSource) MarshalJSON() ([]byte, error) { return joined(m.Sections) }

// UnmarshalJSON reads what MarshalJSON writes.
func (m *MountSource) UnmarshalJSON(b []byte) error {
	return split(b, &struct{}{}, &m.Sections, "mount")
}

// MarshalJSON writes what launchers call the type, then its own key.
func (t GPUType) MarshalJSON() ([]byte, error) {
	type own GPUType
	return joined(t.Sections, own(t))
}

// UnmarshalJSON reads what MarshalJSON writes.
func (t *GPUType) UnmarshalJSON(b []byte) error {
	type own GPUType
	return split(b, (*own)(t), &t.Sections, "gpuType")
}

// joined is one JSON object with the keys of all of these structs.
func joined(parts ...any) ([]byte, error) {
	out := []byte{'{'}
	for _, part := range parts {
		b, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		if keys := b[1 : len(b)-1]; len(keys) > 0 {
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, keys...)
		}
	}
	return append(out, '}'), nil
}

// split reads an object of joined into a struct and the launchers' keys of that place.
func split(b []byte, own any, in *Sections, place string) error {
	if err := json.Unmarshal(b, own); err != nil {
		return err
	}
	for _, l := range registered {
		t := l.part(place)
		if t == nil {
			continue
		}
		keys := reflect.New(t)
		if err := json.Unmarshal(b, keys.Interface()); err != nil {
			return err
		}
		if !keys.Elem().IsZero() {
			*in = in.With(l.Name, keys.Interface())
		}
	}
	return nil
}
