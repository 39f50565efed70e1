// Package schema describes the cluster file for editors and readers: its JSON Schema and its reference, both from the types of package spec, what
// launchers add to them, and their comments.
package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// SchemaID names the JSON Schema of the cluster file.
const SchemaID = "https://rayctl.github.io/schema/rayctl-v1.json"

// ChangeableKey marks in the schema what may change while a cluster lives: `up` with the changed file applies it.
const ChangeableKey = "x-rayctl-changeable"

// JSON is the cluster file's JSON Schema (draft 2020-12), indented, for editors (`# yaml-language-server: $schema=...`) and checks.
func JSON() ([]byte, error) {
	s := reflectSchema(reflect.TypeFor[spec.ClusterSpec]())
	addLaunchersKeys(s)
	allowText(s.Definitions["Secret"], "An environment variable of the client.")
	allowText(s.Definitions["Mount"], "The path of a directory, the same on all nodes.")
	allowText(s.Definitions["MountSource"], "The source of slurm and local.")
	s.ID = SchemaID
	s.Title = "rayctl cluster file"
	addFileKeys(s)
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(b, '\n'), nil
}

func reflectSchema(t reflect.Type) *jsonschema.Schema {
	r := &jsonschema.Reflector{
		Anonymous:                  true,
		ExpandedStruct:             true,
		RequiredFromJSONSchemaTags: true,
		Mapper:                     schemaOf,
		LookupComment:              describe,
		Namer:                      definitionName,
	}
	return r.ReflectFromType(t)
}

// definitionName is the name of a type below $defs: a launcher's Section is named after the substrate, its other types begin with that name.
func definitionName(t reflect.Type) string {
	for _, s := range spec.Substrates() {
		if s.Cluster != nil && reflect.TypeOf(s.Cluster).PkgPath() == t.PkgPath() {
			return s.Title + strings.TrimSuffix(t.Name(), "Section")
		}
	}
	return t.Name()
}

// addLaunchersKeys puts the keys that launchers add, and values that only they know, into the schema of the file's own types.
func addLaunchersKeys(root *jsonschema.Schema) {
	for t := range mapTypes(reflect.TypeFor[spec.ClusterSpec](), map[reflect.Type]bool{}) {
		of := root
		if t != reflect.TypeFor[spec.ClusterSpec]() {
			of = root.Definitions[definitionName(t)]
		}
		if of == nil {
			continue // of a launcher: added below
		}
		all := jsonschema.NewProperties()
		for _, f := range spec.Fields(t) {
			p, ok := of.Properties.Get(f.Key)
			if !ok {
				part := reflectSchema(f.Owner)
				p, _ = part.Properties.Get(f.Key)
				for name, d := range part.Definitions {
					root.Definitions[name] = d
				}
			}
			if len(f.Enum) > 0 && len(p.Enum) == 0 {
				for _, v := range f.Enum {
					p.Enum = append(p.Enum, v)
				}
			}
			if f.Changeable {
				p.Extras = map[string]any{ChangeableKey: true}
			}
			all.Set(f.Key, p)
		}
		of.Properties = all
	}
}

// mapTypes collects the struct types of the cluster file from t on.
func mapTypes(t reflect.Type, seen map[reflect.Type]bool) map[reflect.Type]bool {
	seen[t] = true
	for _, f := range spec.Fields(t) {
		if inner, _ := structIn(f.Type); inner != nil && !seen[inner] {
			mapTypes(inner, seen)
		}
	}
	return seen
}

// addFileKeys adds the keys of a file beside those of a ClusterSpec.
func addFileKeys(s *jsonschema.Schema) {
	s.Properties.Set(spec.ProfilesKey, &jsonschema.Schema{
		Type: "object", AdditionalProperties: &jsonschema.Schema{Ref: "#"},
		Description: "Profiles by name: partial cluster files, chosen with --profile. The one named default needs no choosing, and the file goes before it.",
	})
}

const (
	durationPattern = `^(0|([0-9.]+(ms|[wdhms]))+|([0-9]+-)?[0-9]+(:[0-9]{1,2}){0,2})$`
	quantityPattern = `^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$`
)

// schemaOf is the schema of types whose written form differs from Go's; nil for all others.
func schemaOf(t reflect.Type) *jsonschema.Schema {
	str := func(pattern string) *jsonschema.Schema { return &jsonschema.Schema{Type: "string", Pattern: pattern} }
	zero := func() *jsonschema.Schema { return &jsonschema.Schema{Const: 0} }
	unlimited := func() *jsonschema.Schema { return &jsonschema.Schema{Const: "unlimited"} }
	oneOf := func(s ...*jsonschema.Schema) *jsonschema.Schema { return &jsonschema.Schema{OneOf: s} }
	number := func(kind string) *jsonschema.Schema { return &jsonschema.Schema{Type: kind, Minimum: json.Number("0")} }
	switch t {
	case reflect.TypeFor[units.Duration]():
		return oneOf(str(durationPattern), zero())
	case reflect.TypeFor[units.Limit]():
		return oneOf(str(durationPattern), zero(), unlimited())
	case reflect.TypeFor[units.Count]():
		return oneOf(number("integer"), unlimited())
	case reflect.TypeFor[units.Each]():
		return oneOf(&jsonschema.Schema{Type: "integer", Minimum: json.Number("1")}, &jsonschema.Schema{Const: "gpu"})
	case reflect.TypeFor[units.CPUs](), reflect.TypeFor[spec.Quantity]():
		return oneOf(number("number"), str(quantityPattern))
	case reflect.TypeFor[spec.Object]():
		return &jsonschema.Schema{Type: "object"}
	case reflect.TypeFor[spec.Requirements]():
		return oneOf(&jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}}, &jsonschema.Schema{Type: "string", Description: "A requirements file of the client."})
	case reflect.TypeFor[map[string]string]():
		// Numbers and booleans are accepted as written: OMP_NUM_THREADS: 8.
		values := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
		return &jsonschema.Schema{Type: "object", AdditionalProperties: values}
	}
	if t.Kind() == reflect.Struct && t.PkgPath() == "k8s.io/api/core/v1" {
		return &jsonschema.Schema{Type: "object", Description: "As in the Kubernetes API, core/v1 " + t.Name() + "."}
	}
	return nil
}

// allowText allows a plain string in place of an object.
func allowText(s *jsonschema.Schema, meaning string) {
	object := *s
	*s = jsonschema.Schema{
		OneOf:       []*jsonschema.Schema{{Type: "string", Description: meaning}, &object},
		Description: object.Description,
	}
}
