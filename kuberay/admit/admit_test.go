package admit_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
)

// TestOnlyThisPackageNamesAdmitters holds that an admitter is added here alone, with one registration in package kuberayspec: no other product file has the name of
// one, or of the object that it wants, not even in a comment. Only advise's words do, which are about choosing, and the cluster file's keys.
func TestOnlyThisPackageNamesAdmitters(t *testing.T) {
	const root = "../.."
	said := map[string]bool{"cmd/advise/rules.go": true, "kuberay/kuberayspec/types.go": true, "kuberay/kuberayspec/admitters.go": true}
	words := []string{"yunikorn", "kai.scheduler", "coscheduling"}
	for _, a := range admit.All() {
		words = append(words, a.Info().Name)
		if resource := a.Info().Objects.Resource; resource != "" {
			words = append(words, strings.TrimSuffix(resource, "s"))
		}
	}
	files := 0
	for _, dir := range []string{"cmd", "dashboardclient", "kuberay", "launcher", "local", "slurm", "tsp"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			name, _ := filepath.Rel(root, path)
			if err != nil || d.IsDir() || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || filepath.Dir(name) == "kuberay/admit" || said[name] {
				return err
			}
			text, err := os.ReadFile(path)
			files++
			for _, word := range words {
				if strings.Contains(strings.ToLower(string(text)), word) {
					t.Errorf("%s names %s", name, word)
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

// TestChosenByFile: what package kuberayspec knows of the admitters is what they say of themselves.
func TestChosenByFile(t *testing.T) {
	var schedulers []string
	for _, a := range admit.All().Gangs() {
		schedulers = append(schedulers, a.Info().Name)
	}
	if !slices.Equal(schedulers, kuberayspec.Schedulers) {
		t.Errorf("%v, want %v", kuberayspec.Schedulers, schedulers)
	}
	for _, i := range admit.All().Suspenders() {
		if by := kuberayspec.QueueLabels[i.QueueLabel]; by != i.Title {
			t.Errorf("%s is of %q, want %s", i.QueueLabel, by, i.Title)
		}
	}
}
