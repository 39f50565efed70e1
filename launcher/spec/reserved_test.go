package spec_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
)

// TestProgramsUseReservedVariables checks that each variable used by the programs on the nodes is reserved. Otherwise a rayctl in
// a driver would treat it as a mistyped key.
func TestProgramsUseReservedVariables(t *testing.T) {
	variable, files := regexp.MustCompile(`RAYCTL_[A-Z][A-Z_]*[A-Z]`), 0
	err := filepath.WalkDir(filepath.Join("..", "..", "keeper", "rayctl_keeper"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "kubernetes" {
			return fs.SkipDir // its variables are of pods without drivers, or unset before Ray starts (kuberay/objects/node.sh)
		}
		if err != nil || filepath.Ext(path) != ".py" {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, name := range variable.FindAllString(string(text), -1) {
			if !slices.Contains(environ.Reserved(), name) {
				t.Errorf("%s uses %s, which the package environ does not list", path, name)
			}
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files, %v", files, err)
	}
}

func TestReservedVariablesAreNoKeys(t *testing.T) {
	for _, k := range spec.Keys() {
		for _, v := range environ.Client() {
			if k.Env == v.Name {
				t.Errorf("%s means %s and %s", k.Env, k.Path, v.Meaning)
			}
		}
		if slices.Contains(environ.Reserved(), k.Env) {
			t.Errorf("%s is reserved and sets %s", k.Env, k.Path)
		}
	}
}

func TestKeysAreUnique(t *testing.T) {
	seen := map[string]string{}
	for _, k := range spec.Keys() {
		if other, dup := seen[k.Env]; dup {
			t.Errorf("%s sets %s and %s", k.Env, k.Path, other)
		}
		seen[k.Env] = k.Path
	}
	if seen["RAYCTL_SLURM_PARTITION"] != "slurm.partition" || seen["RAYCTL_RAY_PYTHON"] != "ray.python" || seen["RAYCTL_KUBERAY_NAMESPACE"] != "kuberay.namespace" {
		t.Error("a key is missing")
	}
}
