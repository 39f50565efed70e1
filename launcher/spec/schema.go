package spec

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
)

// SchemaID names the JSON Schema of the cluster file.
const SchemaID = "https://rayctl.github.io/schema/rayctl-v1.json"

// Schema is the cluster file's JSON Schema (draft 2020-12), indented, for editors (`# yaml-language-server: $schema=...`) and checks.
func Schema() ([]byte, error) {
	r := &jsonschema.Reflector{
		Anonymous:                  true,
		ExpandedStruct:             true,
		RequiredFromJSONSchemaTags: true,
		Mapper:                     schemaOf,
		LookupComment:              describe,
	}
	s := r.Reflect(&ClusterSpec{})
	s.ID = SchemaID
	s.Title = "rayctl cluster file"
	addFileKeys(s)
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(b, '\n'), nil
}

// ProfilesKey is the key of the cluster file and of the user's configuration that holds profiles by name.
const ProfilesKey = "profiles"

// addFileKeys adds the keys of a file beside those of a ClusterSpec.
func addFileKeys(s *jsonschema.Schema) {
	s.Properties.Set(ProfilesKey, &jsonschema.Schema{
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
	case reflect.TypeFor[Duration]():
		return oneOf(str(durationPattern), zero())
	case reflect.TypeFor[Limit]():
		return oneOf(str(durationPattern), zero(), unlimited())
	case reflect.TypeFor[Count]():
		return oneOf(number("integer"), unlimited())
	case reflect.TypeFor[CPUs](), quantityType:
		return oneOf(number("number"), str(quantityPattern))
	case objectType:
		return &jsonschema.Schema{Type: "object"}
	case requirementsType:
		return oneOf(&jsonschema.Schema{Type: "array", Items: &jsonschema.Schema{Type: "string"}}, &jsonschema.Schema{Type: "string", Description: "A requirements file of the client."})
	case reflect.TypeFor[VolumeSource](), reflect.TypeFor[Toleration](), reflect.TypeFor[LocalObjectReference]():
		return &jsonschema.Schema{Type: "object", Description: "As in the Kubernetes API, core/v1 " + t.Name() + "."}
	case reflect.TypeFor[map[string]string]():
		// Numbers and booleans are accepted as written: OMP_NUM_THREADS: 8.
		values := &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}, {Type: "boolean"}}}
		return &jsonschema.Schema{Type: "object", AdditionalProperties: values}
	default:
		return nil
	}
}

// JSONSchemaExtend allows a plain string as a secret.
func (Secret) JSONSchemaExtend(s *jsonschema.Schema) {
	object := *s
	*s = jsonschema.Schema{
		OneOf:       []*jsonschema.Schema{{Type: "string", Description: "An environment variable of the client."}, &object},
		Description: object.Description,
	}
}
