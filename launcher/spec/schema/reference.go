package schema

import (
	"reflect"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// Section is a part of the reference: the keys of one map of the cluster file.
type Section struct {
	// Path is where the map is, such as workers[]; "" is the file itself.
	Path string
	// Text describes the map.
	Text string
	// Fields are its keys, in order.
	Fields []FieldDoc
}

// FieldDoc is one key of the reference.
type FieldDoc struct {
	// Key is the key, and Path the whole path.
	Key, Path string
	// Type describes the allowed values, in words.
	Type string
	// Text is the meaning; Default is the value if the key is left out.
	Text, Default string
}

// Reference describes the whole cluster file, from the comments of the types.
func Reference() []Section {
	r := reference{}
	r.add("", reflect.TypeFor[spec.ClusterSpec]())
	return r.sections
}

type reference struct{ sections []Section }

func (r *reference) add(path string, t reflect.Type) {
	s := Section{Path: path, Text: describe(t, "")}
	type below struct {
		path string
		typ  reflect.Type
	}
	var later []below
	for _, f := range spec.Fields(t) {
		text, def, _ := strings.Cut(describe(f.Owner, f.GoName), " Default")
		if f.Changeable {
			text += " May change while the cluster runs (`rayctl up`)."
		}
		p := strings.TrimPrefix(path+"."+f.Key, ".")
		s.Fields = append(s.Fields, FieldDoc{Key: f.Key, Path: p, Type: typeInWords(f), Text: text, Default: defaultText(def)})
		if inner, suffix := structIn(f.Type); inner != nil {
			later = append(later, below{p + suffix, inner})
		}
	}
	r.sections = append(r.sections, s)
	for _, b := range later {
		r.add(b.path, b.typ)
	}
}

// defaultText strips what follows the word Default, such as ": 3s, as Ray has it." or " on KubeRay: ...".
func defaultText(s string) string {
	return strings.TrimSuffix(strings.TrimSpace(strings.TrimPrefix(s, ":")), ".")
}

// structIn finds the section (spec.IsSection) in a field's type, and the path suffix that leads to it: it may be in a list or in a map.
func structIn(t reflect.Type) (inner reflect.Type, suffix string) {
	switch t = deref(t); t.Kind() {
	case reflect.Slice:
		t, suffix = deref(t.Elem()), "[]"
	case reflect.Map:
		t, suffix = deref(t.Elem()), ".NAME"
	}
	if !spec.IsSection(t) {
		return nil, ""
	}
	return t, suffix
}

func typeInWords(f spec.Field) string {
	if len(f.Enum) > 0 {
		return strings.Join(f.Enum, ", ")
	}
	return words(f.Type)
}

func words(t reflect.Type) string {
	t = deref(t)
	switch t {
	case reflect.TypeFor[spec.Quantity]():
		return "quantity"
	case reflect.TypeFor[spec.Object]():
		return "map"
	case reflect.TypeFor[units.Duration]():
		return "duration"
	case reflect.TypeFor[units.Limit]():
		return "duration or unlimited"
	case reflect.TypeFor[units.Count]():
		return "number or unlimited"
	case reflect.TypeFor[units.Each]():
		return "number or gpu"
	case reflect.TypeFor[units.CPUs]():
		return "number or quantity"
	case reflect.TypeFor[spec.Requirements]():
		return "list of text, or a file"
	case reflect.TypeFor[spec.Secret]():
		return "name or map"
	case reflect.TypeFor[spec.Mount](), reflect.TypeFor[spec.MountSource]():
		return "path or map"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true, false"
	case reflect.Int:
		return "whole number"
	case reflect.Float64:
		return "number"
	case reflect.Slice:
		return "list of " + words(t.Elem())
	case reflect.Map:
		return "map of " + words(t.Elem())
	default:
		if !spec.IsSection(t) {
			return "Kubernetes " + t.Name()
		}
		return "map"
	}
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
