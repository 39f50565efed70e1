package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
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

// in returns the field's value in the struct v. The value is invalid if it is a launcher's key and v has none of that launcher's keys, unless create is true.
func (f field) in(v reflect.Value, create bool) reflect.Value {
	v = v.FieldByIndex(f.index)
	if f.part == nil {
		return v
	}
	sections := v.Interface().(Sections)
	if sections[f.launcher] == nil {
		if !create {
			return reflect.Value{}
		}
		if sections == nil {
			sections = Sections{}
			v.Set(reflect.ValueOf(sections))
		}
		sections[f.launcher] = reflect.New(f.part).Interface()
	}
	return reflect.ValueOf(sections[f.launcher]).Elem().FieldByIndex(f.below)
}

// MarshalJSON writes the launchers' keys among the file's own. encoding/json cannot: it inlines structs, but no map.
func (s ClusterSpec) MarshalJSON() ([]byte, error) { return encode(reflect.ValueOf(&s).Elem()) }

// UnmarshalJSON reads what MarshalJSON writes. Unknown keys are ignored.
func (s *ClusterSpec) UnmarshalJSON(b []byte) error { return decodeJSON(b, reflect.ValueOf(s).Elem()) }

// hosts reports whether t is or holds a struct of this package with a field of type Sections.
func hosts(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return hosts(t.Elem())
	case reflect.Struct:
		return t.PkgPath() == corePackage && slices.ContainsFunc(fieldsOf(t), func(f field) bool { return f.part != nil || hosts(f.typ) })
	default:
		return false
	}
}

// encode is json.Marshal for values that may hold Sections.
func encode(v reflect.Value) ([]byte, error) {
	if !hosts(v.Type()) {
		return json.Marshal(v.Interface())
	}
	var out bytes.Buffer
	item := func(key string, v reflect.Value) error {
		b, err := encode(v)
		if err != nil {
			return err
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		if key != "" {
			out.WriteString(key + ":")
		}
		out.Write(b)
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if v.IsNil() {
			return []byte("null"), nil
		}
	default:
	}
	end := byte('}')
	switch v.Kind() {
	case reflect.Pointer:
		return encode(v.Elem())
	case reflect.Slice:
		out.WriteByte('[')
		end = ']'
		for i := range v.Len() {
			if err := item("", v.Index(i)); err != nil {
				return nil, err
			}
		}
	case reflect.Map:
		out.WriteByte('{')
		for _, k := range slices.SortedFunc(slices.Values(v.MapKeys()), func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) }) {
			if err := item(quoted(k.String()), addressable(v.MapIndex(k))); err != nil {
				return nil, err
			}
		}
	default:
		out.WriteByte('{')
		for _, f := range fieldsOf(v.Type()) {
			if value := f.in(v, false); value.IsValid() && !f.omitted(value) {
				if err := item(quoted(f.name), value); err != nil {
					return nil, err
				}
			}
		}
	}
	out.WriteByte(end)
	return out.Bytes(), nil
}

func quoted(key string) string {
	b, err := json.Marshal(key)
	if err != nil {
		panic(fmt.Sprintf("write a key: %v", err)) // text always has a JSON form
	}
	return string(b)
}

func addressable(v reflect.Value) reflect.Value {
	p := reflect.New(v.Type()).Elem()
	p.Set(v)
	return p
}

// omitted reports whether the tags omitempty and omitzero leave the value out.
func (f field) omitted(v reflect.Value) bool {
	if f.omitZero {
		if z, ok := addressable(v).Addr().Interface().(interface{ IsZero() bool }); ok {
			return z.IsZero()
		}
		return isZero(v)
	}
	if !f.omitEmpty {
		return false
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// isZero is v.IsZero, but keys of launchers count only if one is set.
func isZero(v reflect.Value) bool {
	if v.Kind() != reflect.Struct || !hosts(v.Type()) {
		return v.IsZero()
	}
	for _, f := range fieldsOf(v.Type()) {
		if value := f.in(v, false); value.IsValid() && !isZero(value) {
			return false
		}
	}
	return true
}

// decodeJSON is json.Unmarshal for values that may hold Sections.
func decodeJSON(b []byte, v reflect.Value) error {
	if !hosts(v.Type()) {
		return json.Unmarshal(b, v.Addr().Interface())
	}
	if string(bytes.TrimSpace(b)) == "null" {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return decodeJSON(b, v.Elem())
	case reflect.Slice:
		var items []json.RawMessage
		if err := json.Unmarshal(b, &items); err != nil {
			return err
		}
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		for i, b := range items {
			if err := decodeJSON(b, v.Index(i)); err != nil {
				return err
			}
		}
		return nil
	}
	var entries map[string]json.RawMessage
	if err := json.Unmarshal(b, &entries); err != nil {
		return err
	}
	if v.Kind() == reflect.Map {
		v.Set(reflect.MakeMap(v.Type()))
		for key, b := range entries {
			item := reflect.New(v.Type().Elem()).Elem()
			if err := decodeJSON(b, item); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(key), item)
		}
		return nil
	}
	for _, f := range fieldsOf(v.Type()) {
		if b, ok := entries[f.name]; ok {
			if err := decodeJSON(b, f.in(v, true)); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
		}
	}
	return nil
}
