package spec

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// EnvPrefix is the prefix of configuration variables and of variables that rayctl sets itself.
const EnvPrefix = "RAYCTL_"

// Key is a key of the cluster file with a single value that a variable can set.
type Key struct {
	// Path is the key, such as slurm.partition.
	Path string
	// Env is the variable that sets it, such as RAYCTL_SLURM_PARTITION.
	Env string
}

// Keys lists all keys with a single value outside lists and maps, in the order of the types.
var Keys = sync.OnceValue(func() []Key {
	var keys []Key
	walkKeys(reflect.TypeFor[ClusterSpec](), "", func(path string) {
		keys = append(keys, Key{path, EnvPrefix + strings.ToUpper(strings.ReplaceAll(path, ".", "_"))})
	})
	return keys
})

func walkKeys(t reflect.Type, path string, visit func(string)) {
	for _, f := range fieldsOf(t) {
		p := join(path, f.name)
		switch ft := deref(f.typ); {
		case isScalar(ft):
			visit(p)
		case ft.Kind() == reflect.Struct && ours(ft) && ft != requirementsType:
			walkKeys(ft, p, visit)
		}
	}
}

// field is a key of a struct, as encoding/json sees it.
type field struct {
	name  string
	typ   reflect.Type
	index []int
	path  string // the tag path: see resolvePath
	enum  []string
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
			out = append(out, field{name, f.Type, []int{i}, f.Tag.Get("path"), enumOf(f.Tag.Get("jsonschema"))})
		}
	}
	fieldCache.Store(t, out)
	return out
}

func enumOf(tag string) (values []string) {
	for part := range strings.SplitSeq(tag, ",") {
		if v, ok := strings.CutPrefix(part, "enum="); ok {
			values = append(values, v)
		}
	}
	return values
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

func ours(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[ClusterSpec]().PkgPath() }

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

// unknownKey is the error of a key that t does not have, with the nearest key, or the section of that key.
func unknownKey(e entry, path string, t reflect.Type) *Error {
	names := fieldNames(t)
	hint := ""
	if near := Nearest(e.key, names); near != "" {
		hint = "did you mean \"" + near + "\"?"
	} else if place := elsewhere(e.key); place != "" {
		hint = "did you mean " + place + "?"
	} else if len(names) <= 14 {
		hint = "the keys here are " + strings.Join(names, ", ")
	} else {
		hint = "`rayctl schema` and docs/cluster-file.md list the keys"
	}
	return e.origin.errorf(path, hint, "unknown key %q", e.key)
}

// elsewhere finds the path of a key of this name in another section.
func elsewhere(key string) string {
	best := ""
	for _, k := range Keys() {
		if strings.HasSuffix(k.Path, "."+key) && (best == "" || strings.Count(k.Path, ".") < strings.Count(best, ".")) {
			best = k.Path
		}
	}
	if best != "" && !strings.HasPrefix(best, "head.") {
		return best
	}
	if _, ok := findField(reflect.TypeFor[WorkerGroup](), key); ok {
		return "workers[]." + key
	}
	return best
}
