package spec

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTemplatesUseReservedVariables checks that each variable used by the programs on the nodes is reserved. Otherwise a rayctl in
// a driver would treat it as a mistyped key.
func TestTemplatesUseReservedVariables(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "templates", "*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	hooks, err := filepath.Glob(filepath.Join("..", "..", "templates", "*", "*.py"))
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`RAYCTL_[A-Z][A-Z_]*[A-Z]`)
	for _, f := range append(files, hooks...) {
		if strings.HasPrefix(filepath.Base(f), "test_") {
			continue
		}
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variable.FindAllString(string(text), -1) {
			if !slices.Contains(ReservedEnv(), name) {
				t.Errorf("%s uses %s, which env.go does not list", filepath.Base(f), name)
			}
		}
	}
}

func TestReservedVariablesAreNoKeys(t *testing.T) {
	for _, k := range Keys() {
		for _, v := range ClientEnv() {
			if k.Env == v.Name {
				t.Errorf("%s means %s and %s", k.Env, k.Path, v.Meaning)
			}
		}
		if slices.Contains(ReservedEnv(), k.Env) {
			t.Errorf("%s is reserved and sets %s", k.Env, k.Path)
		}
	}
}

func TestKeysAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, k := range Keys() {
		if other, dup := seen[k.Env]; dup {
			t.Errorf("%s sets %s and %s", k.Env, k.Path, other)
		}
		seen[k.Env] = k.Path
	}
	if seen["RAYCTL_SLURM_PARTITION"] != "slurm.partition" || seen["RAYCTL_RAY_PYTHON"] != "ray.python" || seen["RAYCTL_KUBERAY_NAMESPACE"] != "kuberay.namespace" {
		t.Error("a key is missing")
	}
}
