package keeperzip_test

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/test/needs"
	"github.com/rayctl/rayctl/test/oldpython"
)

// floor is the oldest Python that rayctl promises to run on.
const floor = "3.8"

// eachPython runs a test with the oldest Python that rayctl promises, which must be there, with the one of this machine's users, and with the newest that this
// machine has: a cluster's is not ours to choose.
func eachPython(t *testing.T, run func(t *testing.T, python string)) {
	t.Helper()
	own, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal(err)
	}
	pythons := map[string]string{floor: oldpython.Find(t.Context(), floor), "python3": own}
	for minor := 20; minor > 8; minor-- {
		version := fmt.Sprintf("3.%d", minor)
		if newest := oldpython.Find(t.Context(), version); newest != "" {
			pythons[version] = newest
			break
		}
	}
	for name, python := range pythons {
		t.Run(name, func(t *testing.T) {
			needs.That(t, python != "", "needs Python %s", name)
			run(t, python)
		})
	}
}

// The keeper's parts.
func TestUnits(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join("tests", "test_*.py"))
	inFolders, _ := filepath.Glob(filepath.Join("tests", "*", "test_*.py"))
	files = append(files, inFolders...)
	if len(files) == 0 || len(inFolders) == 0 {
		t.Fatalf("no tests: %q, %q", files, inFolders)
	}
	eachPython(t, func(t *testing.T, python string) {
		var leftOut []string // unittest passes with tests that it skips
		for _, file := range files {
			cmd := exec.Command(python, "-W", "error::SyntaxWarning", file)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1") // also what it starts
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", file, err, out)
			}
			if bytes.Contains(out, []byte("Ran 0 tests")) {
				t.Errorf("%s has no test", file)
			}
			if bytes.Contains(out, []byte("skipped=")) {
				leftOut = append(leftOut, file)
			}
		}
		needs.That(t, len(leftOut) == 0, "tests of %q need Linux or root", leftOut)
	})
}

func TestWrite(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a b")
	want := filepath.Join(root, keeperzip.Directory(), keeperzip.File)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			got, err := keeperzip.Write(root)
			if err != nil || got != want {
				t.Errorf("%q, %v", got, err)
				return
			}
			if content, err := os.ReadFile(got); err != nil || !bytes.Equal(content, keeperzip.Bytes()) {
				t.Errorf("%d bytes, %v", len(content), err)
			}
		})
	}
	group.Wait()
	for _, dir := range []string{root, filepath.Dir(want)} {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%v, %v", entries, err)
		}
	}
}

// TestZip: the zip file has all modules, and Python runs each role from it, with any of the options that are used, writing nothing beside it.
func TestZip(t *testing.T) {
	program, err := keeperzip.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	zipped, err := zip.OpenReader(program)
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	packed := map[string]bool{}
	for _, f := range zipped.File {
		packed[f.Name] = true
	}
	err = filepath.WalkDir("rayctl_keeper", func(path string, _ fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".py" && !packed[filepath.ToSlash(path)] {
			t.Errorf("%s is not in the zip file", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const everyRole = `import importlib, runpy, sys
roles = runpy.run_path(sys.argv[1], run_name="roles")["ROLES"]
sys.path.insert(0, sys.argv[1])
for module in roles.values():
    assert callable(importlib.import_module("rayctl_keeper." + module).main), module
from rayctl_keeper import program
print(program.PATH)`
	eachPython(t, func(t *testing.T, python string) {
		for _, options := range [][]string{{"-E", "-s"}, {"-S", "-E"}, {"-E", "-s", "-S", "-u"}, {"-I"}} {
			out, err := exec.Command(python, append(options, program, "nosuch")...).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "the roles are keeper, node, guard, gpus, ray, slurm-batch, ") {
				t.Errorf("%v: %s, %v", options, out, err)
			}
		}
		out, err := exec.Command(python, "-c", everyRole, program).CombinedOutput()
		if err != nil || strings.TrimSpace(string(out)) != program {
			t.Errorf("%s, %v", out, err)
		}
	})
	if entries, err := os.ReadDir(filepath.Dir(program)); err != nil || len(entries) != 1 {
		t.Errorf("beside the zip file: %v, %v", entries, err)
	}
}

// TestTooOld: every Python that is too old, 3.6 and those that this machine has, rejects each role in one sentence.
func TestTooOld(t *testing.T) {
	program, err := keeperzip.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"2.7", "3.6", "3.7"} {
		t.Run(version, func(t *testing.T) {
			python := oldpython.Find(t.Context(), version)
			if version == "3.6" {
				python = oldpython.Python36(t, "")
			}
			if python == "" {
				t.Logf("this machine has no Python %s", version)
				return
			}
			for role, key := range map[string]string{"keeper": "ray.python", "slurm-batch": "slurm.python", "slurm-network": "ray.python"} {
				out, err := exec.Command(python, "-E", "-s", program, role, "argument").CombinedOutput()
				if want := python + " is Python " + version + ", and rayctl needs 3.8 or later: set " + key + "\n"; err == nil || string(out) != want {
					t.Errorf("%s: %v, %q, want %q", role, err, out, want)
				}
			}
		})
	}
}
