package gang_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/gang"
)

// TestOnlyThisPackageNamesSchedulers holds that a gang scheduler is added here alone: no other product file has the name of one, or of the object
// that it wants, not even in a comment. Only advise's words do, which are about choosing, and the cluster file's keys, in types.go of package kuberayspec and as the value that validate.go there allows.
func TestOnlyThisPackageNamesSchedulers(t *testing.T) {
	const root = "../.."
	files := 0
	for _, dir := range []string{"cmd", "dashboardclient", "kuberay", "launcher", "local", "slurm", "tsp"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || filepath.Dir(name) == "kuberay/gang" || name == "cmd/advise/rules.go" || name == "kuberay/kuberayspec/types.go" {
				return err
			}
			text, err := os.ReadFile(path)
			files++
			for _, s := range gang.All() {
				if name == "kuberay/kuberayspec/validate.go" {
					text = []byte(strings.ReplaceAll(string(text), `"`+s.Name()+`"`, ""))
				}
				if strings.Contains(strings.ToLower(string(text)), s.Name()) {
					t.Errorf("%s names the gang scheduler %s", name, s.Name())
				}
				if resource := strings.TrimSuffix(s.Resource().Resource, "s"); resource != "" && strings.Contains(strings.ToLower(string(text)), resource) {
					t.Errorf("%s names %s, the object of the gang scheduler %s", name, resource, s.Name())
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files == 0 {
		t.Error("no file was read")
	}
}
