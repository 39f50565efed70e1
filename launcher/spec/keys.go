package spec

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/rayctl/rayctl/launcher/spec/environ"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// Key is a key of the cluster file with a single value that a variable can set.
type Key struct {
	// Path is the key, such as slurm.partition.
	Path string
	// Env is the variable that sets it, such as RAYCTL_SLURM_PARTITION.
	Env string
}

// Keys lists all keys with a single value that are in no list and in no map with keys of the user's choice, such as env. They have the order of the types.
var Keys = sync.OnceValue(func() []Key {
	var keys []Key
	walkFields(reflect.TypeFor[ClusterSpec](), "", func(path string, t reflect.Type) {
		if isScalar(t) {
			keys = append(keys, Key{path, environ.Prefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))})
		}
	})
	return keys
})

// walkFields visits the keys of t and of the sections in it (IsSection), but not what is in lists and Go maps.
func walkFields(t reflect.Type, path string, visit func(path string, t reflect.Type)) {
	for _, f := range fieldsOf(t) {
		p, ft := Join(path, f.name), deref(f.typ)
		visit(p, ft)
		if !isScalar(ft) && IsSection(ft) {
			walkFields(ft, p, visit)
		}
	}
}

// field is a key of a struct: one of its own, as encoding/json sees it, or one that a launcher adds.
type field struct {
	name  string
	typ   reflect.Type
	index []int  // of the value in the struct; of a launcher's key, of the struct's field of type Sections
	path  string // the tag path: see resolvePath
	enum  []string
	// changeable: the value may change while a cluster lives (tag changeable:"true").
	changeable bool

	owner  reflect.Type // the struct that declares the key, which may be embedded in the one that fieldsOf got
	goName string       // the name of the key's Go field in owner

	// Of a key that a launcher adds; zero for the struct's own keys.
	launcher      string       // the launcher's name
	launcherType  reflect.Type // the struct that the launcher registered for this place
	launcherIndex []int        // of the value in launcherType
}

var fieldCache sync.Map // reflect.Type -> []field

// fieldsOf lists the keys of a struct, embedded structs' among them, in their order.
func fieldsOf(t reflect.Type) []field {
	if c, ok := fieldCache.Load(t); ok {
		return c.([]field)
	}
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type == sectionsType:
			out = append(out, addedFields(i, f.Tag.Get("section"))...)
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			for _, inner := range fieldsOf(deref(f.Type)) {
				inner.index = append([]int{i}, inner.index...)
				out = append(out, inner)
			}
		default:
			if name == "" {
				name = f.Name
			}
			out = append(out, field{name: name, typ: f.Type, index: []int{i}, path: f.Tag.Get("path"), enum: enumOf(f.Tag), owner: t, goName: f.Name, changeable: f.Tag.Get("changeable") == "true"})
		}
	}
	fieldCache.Store(t, out)
	return out
}

// addedFields are the keys that launchers add at a place; i is the field of type Sections.
func addedFields(i int, place string) (out []field) {
	for _, s := range registered {
		t := s.part(place)
		if t == nil {
			continue
		}
		for _, f := range fieldsOf(t) {
			f.launcher, f.launcherType, f.index, f.launcherIndex = s.Name, t, []int{i}, f.index
			out = append(out, f)
		}
	}
	return out
}

// enumOf lists the values that a field's tags allow: enum:"launchers" are the registered ones.
func enumOf(tag reflect.StructTag) (values []string) {
	if tag.Get("enum") == "launchers" {
		return Launchers()
	}
	for part := range strings.SplitSeq(tag.Get("jsonschema"), ",") {
		if v, ok := strings.CutPrefix(part, "enum="); ok {
			values = append(values, v)
		}
	}
	return values
}

// Field is a key of a section of the cluster file.
type Field struct {
	Key  string
	Type reflect.Type
	// Enum are the allowed values, if they are listed.
	Enum []string
	// Owner and GoName are where the key is declared, with its comment.
	Owner  reflect.Type
	GoName string
	// Changeable: a living cluster takes another value.
	Changeable bool
}

// Fields lists the keys of a struct of the cluster file in their order, those that launchers add among them.
func Fields(t reflect.Type) []Field {
	fields := fieldsOf(t)
	out := make([]Field, len(fields))
	for i, f := range fields {
		out[i] = Field{f.name, f.typ, f.enum, f.owner, f.goName, f.changeable}
	}
	return out
}

// IsSection reports whether t is a struct type that people write as a YAML map with the keys that Fields lists. Requirements, which is written as a list or a file's
// name, and the types of other modules, such as those of Kubernetes, are none.
func IsSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && ours(t) && t != requirementsType
}

func fieldNames(t reflect.Type) []string {
	fields := fieldsOf(t)
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names
}

func findField(t reflect.Type, name string) (field, bool) {
	fields := fieldsOf(t)
	i := slices.IndexFunc(fields, func(f field) bool { return f.name == name })
	if i < 0 {
		return field{}, false
	}
	return fields[i], true
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

var (
	corePackage  = reflect.TypeFor[ClusterSpec]().PkgPath()
	unitsPackage = reflect.TypeFor[units.Duration]().PkgPath()
)

// ours reports whether t is of this package, of package units, or of one in which a launcher declares its keys.
func ours(t reflect.Type) bool {
	return t.PkgPath() == corePackage || t.PkgPath() == unitsPackage || slices.ContainsFunc(registered, func(s *Substrate) bool {
		section := s.part("cluster")
		return section != nil && t.PkgPath() == section.PkgPath()
	})
}

var (
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	quantityType    = reflect.TypeFor[Quantity]()
	objectType      = reflect.TypeFor[Object]()
)

// isScalar reports whether values of t are written as one YAML scalar.
func isScalar(t reflect.Type) bool {
	t = deref(t)
	if t == quantityType {
		return true
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Interface:
		return false
	default:
		return true
	}
}

// OptionsOfRay are the options of Ray for which the cluster file has no key of the same name. Instead of each is the next step on every launcher, with what single
// launchers registered for it (Substrate.InsteadOf), or the keys of the launchers' sections that mean the same.
func OptionsOfRay() []RayOption {
	options := slices.Clone(rayOptions)
	for i := range options {
		o := &options[i]
		steps := []string{o.Instead}
		if o.Key != "" {
			steps = []string{"use " + strings.Join(sectionKeys(o.Key), " or ")}
		}
		for _, s := range registered {
			for _, name := range slices.Sorted(maps.Keys(s.InsteadOf)) {
				if o.Has(name) {
					steps = append(steps, s.InsteadOf[name])
				}
			}
		}
		o.Instead = strings.Join(steps, "; ")
	}
	return options
}

// insteadOf is the next step for somebody who writes an option of Ray as a key; "" if key is no such option.
func insteadOf(key string) string {
	for _, o := range OptionsOfRay() {
		if o.Has(key) {
			return o.Instead
		}
	}
	return ""
}

// sectionKeys are the keys of this name in the launchers' sections.
func sectionKeys(name string) (keys []string) {
	for _, s := range registered {
		if key := s.Name + "." + name; slices.ContainsFunc(Keys(), func(k Key) bool { return k.Path == key }) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}
