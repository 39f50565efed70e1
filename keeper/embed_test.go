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
	pythons := map[string]string{floor: needs.FindPython(t.Context(), floor), "python3": own}
	for minor := 20; minor > 8; minor-- {
		version := fmt.Sprintf("3.%d", minor)
		if newest := needs.FindPython(t.Context(), version); newest != "" {
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

// asVersion runs the program argv[2] as the Python of the version argv[1] would see itself. What that version cannot parse, it can.
const asVersion = `import collections, runpy, sys
version = collections.namedtuple("version_info", "major minor micro releaselevel serial")
sys.version_info = version(*map(int, sys.argv[1].split(".")), 0, "final", 0)
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")`

// TestTooOld: every Python that is too old rejects each role in one sentence: 3.6, those that this machine has, and for each version a newer one that says it is of
// that version. One that says it is the floor does not.
func TestTooOld(t *testing.T) {
	program, err := keeperzip.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	found, err := exec.Command("python3", "-c", "import sys; print(sys.executable, end='')").Output()
	if err != nil {
		t.Fatal(err)
	}
	newer := string(found)
	for _, version := range []string{"2.7", "3.6", "3.7"} {
		t.Run(version, func(t *testing.T) {
			python := needs.FindPython(t.Context(), version)
			if version == "3.6" {
				python = needs.Python36(t, "")
			}
			ways := map[string][]string{newer: {newer, "-E", "-s", "-c", asVersion, version, program}}
			if python != "" {
				ways[python] = []string{python, "-E", "-s", program}
			}
			for role, key := range map[string]string{"keeper": "ray.python", "slurm-batch": "slurm.python", "slurm-network": "ray.python"} {
				for by, argv := range ways {
					out, err := exec.Command(argv[0], append(argv[1:], role, "argument")...).CombinedOutput()
					if want := by + " is Python " + version + ", and rayctl needs 3.8 or later: set " + key + "\n"; err == nil || string(out) != want {
						t.Errorf("%s by %s: %v, %q, want %q", role, by, err, out, want)
					}
				}
			}
		})
	}
	out, err := exec.Command(newer, "-E", "-s", "-c", asVersion, floor, program, "nosuch").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the roles are keeper, ") {
		t.Errorf("as %s: %v, %q", floor, err, out)
	}
}
