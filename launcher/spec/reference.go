package spec

import (
	"reflect"
	"strings"
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
	r.add("", reflect.TypeFor[ClusterSpec]())
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
	for _, f := range fieldsOf(t) {
		owner, goName := ownerOf(t, f.index)
		text, def, _ := strings.Cut(describe(owner, goName), " Default")
		p := join(path, f.name)
		s.Fields = append(s.Fields, FieldDoc{Key: f.name, Path: p, Type: typeInWords(f), Text: text, Default: defaultText(def)})
		if inner, suffix := structIn(f.typ); inner != nil {
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

// ownerOf finds the struct, embedded or not, that a field is written in.
func ownerOf(t reflect.Type, index []int) (reflect.Type, string) {
	for _, i := range index[:len(index)-1] {
		t = deref(t.Field(i).Type)
	}
	return t, t.Field(index[len(index)-1]).Name
}

// structIn finds the struct of this package in a field's type, and the path suffix that leads to it.
func structIn(t reflect.Type) (inner reflect.Type, suffix string) {
	switch t = deref(t); t.Kind() {
	case reflect.Slice:
		t, suffix = deref(t.Elem()), "[]"
	case reflect.Map:
		t, suffix = deref(t.Elem()), ".NAME"
	}
	if t.Kind() != reflect.Struct || !ours(t) || t == requirementsType {
		return nil, ""
	}
	return t, suffix
}

func typeInWords(f field) string {
	if len(f.enum) > 0 {
		return strings.Join(f.enum, ", ")
	}
	return words(f.typ)
}

func words(t reflect.Type) string {
	t = deref(t)
	switch t {
	case quantityType:
		return "quantity"
	case objectType:
		return "map"
	case reflect.TypeFor[Duration]():
		return "duration"
	case reflect.TypeFor[Limit]():
		return "duration or unlimited"
	case reflect.TypeFor[Count]():
		return "number or unlimited"
	case reflect.TypeFor[CPUs]():
		return "number or quantity"
	case requirementsType:
		return "list of text, or a file"
	case reflect.TypeFor[Secret]():
		return "name or map"
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
		if !ours(t) {
			return "Kubernetes " + t.Name()
		}
		return "map"
	}
}
