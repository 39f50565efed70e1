package schema_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	_ "github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/schema"
	_ "github.com/rayctl/rayctl/local/localspec"
	_ "github.com/rayctl/rayctl/slurm/slurmspec"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	b, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(schema.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(schema.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text []byte) error {
	t.Helper()
	// Not by sigs.k8s.io/yaml: in YAML 1.1 the key on of head means true.
	var p any
	if err := yaml.Unmarshal(text, &p); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

func TestSchemaAcceptsWhatDecodeAccepts(t *testing.T) {
	s := compiled(t)
	design, err := os.ReadFile("../testdata/design.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{string(design), "{}", "lifetime: {max: 0, keep: 3-12:00:00, idle: unlimited, queue: 1.5h}", "workers: [{name: a, cpus: 500m, memory: 1024}]",
		"profiles: {site: {slurm: {partition: x}}, default: {workers: [{name: a}]}}", "job: {restarts: {driver: 3, preempted: 2}}", "job: {pip: requirements.txt}", "job: {uv: [a]}", "mounts: [/shared, {mountPath: /a, source: /b}]"} {
		if err := validate(t, s, []byte(text)); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{"worker: []", "workers: [{replicas: 1}]", "gang: maybe", "lifetime: {max: 90}", "job: {restarts: {driver: x}}", "secrets: [{file: x}]", "slurm: {transport: x}", "mounts: [3]", "job: {pip: 3}", "job: {uv: {packages: [a]}}",
		"workers: [{name: a, memory: 16GB}]", "workers: [{name: a, gpus: 0.5}]", "profiles: {site: {partition: x}}"} {
		if err := validate(t, s, []byte(text)); err == nil {
			t.Errorf("%s: accepted", text)
		}
	}
}

// TestExamples checks every cluster file among the examples against the schema, the decoder and the validator.
func TestExamples(t *testing.T) {
	s := compiled(t)
	root := filepath.Join("..", "..", "..", "examples")
	err := filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(p) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		doc, err := spec.Parse(bytes.NewReader(text), p)
		if err != nil || doc.Has("kind") || doc.Has("applications") {
			return nil // a manifest or a Serve configuration
		}
		t.Run(strings.TrimPrefix(p, root+"/"), func(t *testing.T) {
			if err := validate(t, s, text); err != nil {
				t.Error(err)
			}
			if _, err := doc.Take(spec.ProfilesKey); err != nil {
				t.Fatal(err)
			}
			c, err := doc.Decode()
			if err != nil {
				t.Fatal(err)
			}
			spec.Default(c)
			if err := spec.Validate(c); err != nil {
				t.Error(err)
			}
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryFieldIsDescribed(t *testing.T) {
	b, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var root map[string]any
	if err := json.Unmarshal(b, &root); err != nil {
		t.Fatal(err)
	}
	count := 0
	var walk func(path string, v map[string]any)
	walk = func(path string, v map[string]any) {
		props, _ := v["properties"].(map[string]any)
		for name, p := range props {
			count++
			if d, _ := p.(map[string]any)["description"].(string); len(d) < 10 || !strings.HasSuffix(d, ".") {
				t.Errorf("%s.%s: description %q", path, name, d)
			}
		}
		defs, _ := v["$defs"].(map[string]any)
		for name, d := range defs {
			walk(name, d.(map[string]any))
		}
		of, _ := v["oneOf"].([]any)
		for _, o := range of {
			walk(path, o.(map[string]any))
		}
	}
	walk("", root)
	if count < 100 {
		t.Errorf("only %d fields were found", count)
	}
}

// TestSchemaIsAsCommitted shows in a commit what editors will see: `go test ./launcher/spec/schema -update` writes the file anew.
func TestSchemaIsAsCommitted(t *testing.T) {
	const file = "testdata/schema.json"
	got, err := schema.JSON()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("%s is stale; run the test with -update:\n%s", file, d)
	}
}

var update = flag.Bool("update", false, "write testdata/schema.json anew")
