package spec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher/spec/units"
)

// Quantity is a Kubernetes quantity, for example 16Gi.
type Quantity = resource.Quantity

// Object is a free YAML or JSON object that is passed on.
type Object map[string]any

// Decode reads a cluster file strictly: one document, no unknown or repeated key, the right types and units. It neither fills in
// defaults nor validates. The error is Errors or *Error; each names file and line.
func Decode(r io.Reader, filename string) (*ClusterSpec, error) {
	d, err := Parse(r, filename)
	if err != nil {
		return nil, err
	}
	return d.Decode()
}

// Decode makes a ClusterSpec of the document, strictly as the function Decode does.
func (d *Document) Decode() (*ClusterSpec, error) {
	s := &ClusterSpec{}
	dec := decoder{}
	dec.decode(d.root, reflect.ValueOf(s).Elem(), "", "")
	if err := dec.errs.orNil(); err != nil {
		return nil, err
	}
	if head := d.root.get("head"); len(s.Workers) > 0 && s.Head.On == "" && (head.asksForNone("cpus") || head.asksForNone("gpus")) {
		s.Head.On = HeadGroupName
	}
	return s, nil
}

// asksForNone reports whether a key is there with the number 0, which a ClusterSpec does not distinguish from a key that is not there.
func (n *node) asksForNone(key string) bool {
	if n == nil || n.get(key) == nil {
		return false
	}
	amount, ok := n.get(key).float()
	return ok && amount == 0
}

// decoder fills Go values from nodes and collects all errors.
type decoder struct{ errs Errors }

func (d *decoder) fail(n *node, path, hint, format string, args ...any) {
	d.errs = append(d.errs, n.origin.errorf(path, hint, format, args...))
}

// decode fills v from n. pathTag is the struct tag path of the field that v is part of.
func (d *decoder) decode(n *node, v reflect.Value, path, pathTag string) {
	t := v.Type()
	if t.Kind() == reflect.Pointer {
		v.Set(reflect.New(t.Elem()))
		d.decode(n, v.Elem(), path, pathTag)
		return
	}
	if n.isNull() {
		if isScalar(t) {
			d.fail(n, path, "give it a value or remove the key", "is empty")
		}
		return
	}
	switch {
	case t == quantityType:
		d.quantity(n, v, path)
	case t == objectType:
		d.free(n, v, path, pathTag)
	case t == requirementsType:
		d.requirements(n, v, path, pathTag)
	case t == mountType && n.kind == scalarKind:
		d.decode(mountOf(n), v, path, pathTag)
	case t == mountSourceType && n.kind == scalarKind:
		d.decode(sourceOf(n), v, path, pathTag)
	case n.kind == scalarKind && reflect.PointerTo(t).Implements(textUnmarshaler):
		if err := v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.text)); err != nil {
			d.fail(n, path, "", "%v", err)
		}
	case reflect.PointerTo(t).Implements(jsonUnmarshaler) && !ours(t):
		d.viaJSON(n, v, path)
	case t.Kind() == reflect.Struct:
		d.structure(n, v, path)
	case t.Kind() == reflect.Map:
		d.mapping(n, v, path)
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		d.slice(n, v, path, pathTag)
	default:
		d.scalar(n, v, path, pathTag)
	}
}

func (d *decoder) want(n *node, k kind, path, hint string) bool {
	if n.kind == k {
		return true
	}
	d.fail(n, path, hint, "must be %s, not %s", k, n.describe())
	return false
}

func (d *decoder) structure(n *node, v reflect.Value, path string) {
	if !d.want(n, objectKind, path, "its keys are "+strings.Join(fieldNames(v.Type()), ", ")) {
		return
	}
	for _, e := range n.entries {
		f, ok := findField(v.Type(), e.key)
		if !ok {
			d.errs = append(d.errs, unknownKey(e, path, v.Type()))
			continue
		}
		d.decode(e.value, f.in(v), Join(path, f.name), f.path)
	}
	for _, name := range requiredOf(v.Type()) {
		if n.get(name) == nil {
			d.fail(n, path, "add it", "the key %q is missing", name)
		}
	}
}

func requiredOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); strings.Contains(f.Tag.Get("jsonschema"), "required") {
			names = append(names, name)
		}
	}
	return names
}

func (d *decoder) mapping(n *node, v reflect.Value, path string) {
	if !d.want(n, objectKind, path, "write it as KEY: VALUE lines") {
		return
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(n.entries)))
	for _, e := range n.entries {
		item := reflect.New(v.Type().Elem()).Elem()
		d.decode(e.value, item, Join(path, e.key), "")
		v.SetMapIndex(reflect.ValueOf(e.key).Convert(v.Type().Key()), item)
	}
}

func (d *decoder) slice(n *node, v reflect.Value, path, pathTag string) {
	hint := "write it as [A, B] or as lines that begin with -"
	if t := v.Type().Elem(); t.Kind() == reflect.Struct && ours(t) {
		hint = "write it as lines that begin with -, each with keys of " + strings.Join(fieldNames(t), ", ")
		if t == mountType {
			hint = "write it as [/a/path], or" + strings.TrimPrefix(hint, "write it as")
		}
	}
	if !d.want(n, listKind, path, hint) {
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.items), len(n.items)))
	for i, it := range n.items {
		d.decode(it, v.Index(i), itemPath(path, i, it), pathTag)
	}
}

func (d *decoder) scalar(n *node, v reflect.Value, path, pathTag string) {
	what := map[reflect.Kind]string{reflect.String: "text", reflect.Bool: "true or false", reflect.Float64: "a number"}[v.Kind()]
	if what == "" {
		what = "a whole number"
	}
	if n.kind != scalarKind {
		d.fail(n, path, "", "must be %s, not %s", what, n.describe())
		return
	}
	ok := true
	switch v.Kind() {
	case reflect.String:
		// The text is kept as written, so that 3.10 stays 3.10 and 007 stays 007.
		v.SetString(resolvePath(n.text, n.origin.Dir, pathTag))
	case reflect.Bool:
		if ok = n.text == "true" || n.text == "false"; ok {
			v.SetBool(n.text == "true")
		}
	case reflect.Float32, reflect.Float64:
		var f float64
		if f, ok = n.float(); ok {
			v.SetFloat(f)
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		var f float64
		if f, ok = n.float(); ok && f == math.Trunc(f) && math.Abs(f) <= math.MaxInt32 {
			v.SetInt(int64(f))
		} else {
			ok = false
		}
	default:
		d.viaJSON(n, v, path)
		return
	}
	switch _, number := n.float(); {
	case ok:
	case number && v.Kind() == reflect.Bool:
		d.fail(n, path, "", "must be %s, not %s", what, n.describe())
	case number && strings.ContainsAny(n.text, ".eE"):
		d.fail(n, path, "", "must be %s, not %s", what, n.text)
	case number:
		d.fail(n, path, fmt.Sprintf("write a number up to %d", math.MaxInt32), "%s is too large", n.text)
	default:
		d.fail(n, path, "", "must be %s, not %s", what, n.describe())
	}
}

// float reads a number, also one given as text by a flag or a variable.
func (n *node) float() (float64, bool) {
	p, err := (&node{tag: inferTag(n.text), text: n.text}).plainScalar()
	if err != nil || n.tag == "!!str" && n.origin.Line > 0 {
		return 0, false
	}
	switch x := p.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	default:
		return 0, false
	}
}

func (d *decoder) quantity(n *node, v reflect.Value, path string) {
	if n.kind == scalarKind {
		if q, ok := units.ParseQuantity(n.text); ok {
			v.Set(reflect.ValueOf(q))
			return
		}
	}
	d.fail(n, path, "write a Kubernetes quantity like 16Gi, 500M or 8", "%s is not a quantity", n.describe())
}

// free accepts any object unchanged, but makes paths of the client in it absolute.
func (d *decoder) free(n *node, v reflect.Value, path, pathTag string) {
	if !d.want(n, objectKind, path, "write it as KEY: VALUE lines") {
		return
	}
	p, err := n.plain()
	if err != nil {
		d.fail(n, path, "", "%v", err)
		return
	}
	object := Object(p.(map[string]any))
	if pathTag == "runtimeEnv" {
		resolveClientFiles(n, object)
	}
	v.Set(reflect.ValueOf(object))
}

// viaJSON is for foreign types with their own JSON form, such as Kubernetes' IntOrString.
func (d *decoder) viaJSON(n *node, v reflect.Value, path string) {
	p, err := n.plain()
	if err == nil {
		var b []byte
		if b, err = json.Marshal(p); err == nil {
			err = json.Unmarshal(b, v.Addr().Interface())
		}
	}
	if err != nil {
		d.fail(n, path, "", "%v", fmt.Errorf("%s does not fit here: %w", n.describe(), err))
	}
}

var mountType, mountSourceType = reflect.TypeFor[Mount](), reflect.TypeFor[MountSource]()

// mountOf is the whole form of a mount that is written as its path alone: the directory of this path on every launcher whose source can be a path.
func mountOf(n *node) *node {
	return &node{kind: objectKind, origin: n.origin, entries: []entry{{"mountPath", n.origin, n}, {"source", n.origin, sourceOf(n)}}}
}

// sourceOf is the whole form of a mount's source that is written as a path alone.
func sourceOf(n *node) *node {
	out := &node{kind: objectKind, origin: n.origin}
	for _, f := range fieldsOf(mountSourceType) {
		if f.typ.Kind() == reflect.String {
			out.put(f.name, n.origin, n)
		}
	}
	return out
}

// UnmarshalText takes the name alone.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = Secret{Name: string(b)}
	return nil
}

// UnmarshalJSON takes the name alone or the object.
func (s *Secret) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*s = Secret{}
		return json.Unmarshal(b, &s.Name)
	}
	type plain Secret // without this method
	return json.Unmarshal(b, (*plain)(s))
}
