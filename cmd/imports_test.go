package cmd

import (
	gobuild "go/build"
	"slices"
	"strings"
	"testing"
)

// TestImports: the packages of verbs import neither one another nor a launcher, and what they share imports none of them. Unlike test/layers it reads their
// tests, too.
func TestImports(t *testing.T) {
	const ours = "github.com/rayctl/rayctl/"
	verbs := []string{"cmd/clusters", "cmd/jobs", "cmd/access", "cmd/files", "cmd/serve"}
	never := append([]string{"cmd", "local", "slurm", "kuberay", "tsp"}, verbs...)
	for _, folder := range append([]string{"cmd/app", "cmd/app/apptest", "cmd/terminal", "cmd/config"}, verbs...) {
		p, err := gobuild.ImportDir(strings.TrimPrefix(folder, "cmd/"), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if slices.Contains(never, strings.TrimPrefix(path, ours)) || folder == "cmd/terminal" && strings.HasPrefix(path, ours+"cmd/") {
				t.Errorf("%s imports %s", folder, path)
			}
		}
	}
}
