package templates_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rayctl/rayctl/templates"
	"github.com/rayctl/rayctl/test/needs"
)

// The keeper's parts, with every Python that this machine has: a cluster's is not ours to choose.
func TestKeeperUnits(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("tests", "test_*.py"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	found := false
	for _, name := range []string{"python3", "python3.8", "python3.10", "python3.12", "python3.13"} {
		python, err := exec.LookPath(name)
		if err != nil || exec.Command(python, "-c", "import sys; sys.exit(sys.version_info < (3, 8))").Run() != nil {
			continue
		}
		found = true
		t.Run(name, func(t *testing.T) {
			for _, file := range files {
				cmd := exec.Command(python, "-B", "-W", "error::SyntaxWarning", file)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", file, err, out)
				}
			}
		})
	}
	needs.That(t, found, "needs Python 3.8 or later")
}

func TestWriteKeeper(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a b")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			dir, err := templates.WriteKeeper(root)
			if err != nil {
				t.Error(err)
				return
			}
			for path, content := range templates.KeeperFiles() {
				if got, err := os.ReadFile(filepath.Join(dir, path)); err != nil || string(got) != string(content) {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
	group.Wait()
	entries, err := os.ReadDir(root)
	if err != nil || len(entries) != 1 || !strings.HasPrefix(entries[0].Name(), "keeper-") {
		t.Errorf("%v, %v", entries, err)
	}
	for _, file := range []string{templates.Keeper, templates.Supervisor, "rayhook/rayctl_start.py", "rayhook/rayctl_start_hook.py"} {
		if templates.KeeperFiles()[file] == nil {
			t.Errorf("%s is not embedded", file)
		}
	}
}
