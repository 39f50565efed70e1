package objects

import (
	stdcmp "cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// update writes the golden files anew: RAYCTL_UPDATE_GOLDEN=1 go test ./kuberay/objects
var update = os.Getenv("RAYCTL_UPDATE_GOLDEN") != ""

func rendered(t *testing.T, text string) map[string]string {
	t.Helper()
	s := spec.For(decode(t, text), kuberayspec.Name)
	p, err := NewPlan(s, stdcmp.Or(kuberayspec.Of(s).Namespace, "default"), "ann@laptop", admit.All())
	if err != nil {
		t.Fatal(err)
	}
	files, err := Render(p)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, f := range files {
		out[f.Name] = string(f.Content)
	}
	return out
}

// TestGolden compares what Launch would create with testdata/.
func TestGolden(t *testing.T) {
	for name, file := range map[string]string{"small": smallFile, "gang": gangFile, "keeperless": smallFile + "kuberay: {keeper: none}\n"} {
		for part, got := range rendered(t, file) {
			path := filepath.Join("testdata", name, part)
			if update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s/%s (-golden +now):\n%s", name, part, diff)
			}
		}
	}
}

// TestNewerFields: fields of the RayCluster that rayctl's KubeRay does not have are in what is created, also where rayctl changes what is around them.
func TestNewerFields(t *testing.T) {
	const text = "name: x\nlauncher: kuberay\nkuberay:\n  patch: {spec: {rayVersion: 2.59.0}}\n  rayCluster:\n    rayVersion: 2.60.0\n    networkPolicy: {mode: DenyAll}\n    gcsFaultToleranceOptions: {backend: rocksdb}\n" +
		"    headGroupSpec: {rayStartParams: {}, template: {spec: {containers: [{name: h, image: 'rayproject/ray:2.60.0', wasm: true}]}}}\n" +
		"    workerGroupSpecs: [{groupName: a, replicas: 1, minReplicas: 1, maxReplicas: 1, drain: 5, rayStartParams: {}, template: {spec: {containers: [{name: h, image: 'rayproject/ray:2.60.0'}]}}}]\n"
	p, err := NewPlan(spec.For(decode(t, text), kuberayspec.Name), "rl", "ann@laptop", gangs(false))
	if err != nil {
		t.Fatal(err)
	}
	files, err := Render(p)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(files, func(f launcher.File) bool { return f.Name == "raycluster.yaml" })
	for _, want := range []string{"\n  networkPolicy:\n    mode: DenyAll\n", "\n    backend: rocksdb\n", "wasm: true\n", "drain: 5\n", "rayVersion: 2.59.0\n"} {
		if !strings.Contains(string(files[i].Content), want) {
			t.Errorf("%q is not in\n%s", want, files[i].Content)
		}
	}
}
