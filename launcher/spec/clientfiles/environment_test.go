package clientfiles_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/clientfiles"
)

func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEnvironment: files become whole lines that say where they come from, with absolute paths.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, dir, map[string]string{
		"r.txt":           "# what we need\njax==0.7.0  # fast\n\n-r more/dev.txt\n-c pins.txt\n",
		"more/dev.txt":    "pytest \\\n  --hash=sha256:00 \\\n  --hash=sha256:11\n--extra-index-url https://example.org/simple\r\n",
		"pins.txt":        "numpy<3\n",
		"pyproject.toml":  "[project]\nname = \"p\"\ndependencies = [\n  \"torch>=2 ; sys_platform == 'linux'\",\n  \"ray[data]\",\n]\n",
		"locked/uv.lock":  "version = 1\n",
		"vendor/x.whl":    "",
		"lib/setup.py":    "",
		"bad.txt":         "six\nx @ https://ann:hunter2@example.org/x.whl\n",
		"a.txt":           "-r b.txt\n",
		"b.txt":           "-r a.txt\n",
		"gone.txt":        "six\n./nosuch.whl\n",
		"dynamic.toml":    "[project]\nname = \"p\"\ndynamic = [\"dependencies\"]\n",
		"sources.toml":    "[project]\nname = \"p\"\ndependencies = [\"x\"]\n[tool.uv.sources]\nx = {path = \"x\"}\n",
		"poetry.toml":     "[tool.poetry]\n",
		"broken.toml":     "[project]\nname = \n",
		"alone/uv.lock":   "",
		"listed/none.txt": "",
	})
	writeAll(t, dir, map[string]string{"locked/pyproject.toml": ""})
	read := func(in spec.Requirements) ([]string, error) {
		in.Dir = dir
		err := clientfiles.Environment("local.packages", &in)
		return in.Packages, err
	}
	file := func(name string) spec.Requirements { return spec.Requirements{File: filepath.Join(dir, name)} }
	list := func(items ...string) spec.Requirements { return spec.Requirements{Packages: items} }
	requirements := []string{
		"jax==0.7.0  # r.txt:2", "pytest   --hash=sha256:00   --hash=sha256:11  # more/dev.txt:1", "--extra-index-url https://example.org/simple  # more/dev.txt:4",
		"-c " + dir + "/pins.txt  # r.txt:5",
	}
	project := []string{"torch>=2 ; sys_platform == 'linux'  # pyproject.toml:4", "ray[data]  # pyproject.toml:5"}
	for name, c := range map[string]struct {
		in   spec.Requirements
		want []string
	}{
		"a requirements file": {file("r.txt"), requirements},
		"in a list":           {list("six", "-r r.txt"), append([]string{"six"}, requirements...)},
		"by its name":         {list("r.txt", "--requirement=listed/none.txt"), requirements},
		"a project":           {file("pyproject.toml"), project},
		"a project in a list": {list("pyproject.toml", "ray[train]"), append(slices.Clone(project), "ray[train]")},
		"a lock":              {file("locked/uv.lock"), []string{"-r " + dir + "/locked/uv.lock  # 0cabf3fb45d8"}},
		"local paths":         {list("-e ./lib[dev]", "./vendor/x.whl"), []string{"-e " + dir + "/lib[dev]", dir + "/vendor/x.whl"}},
	} {
		got, err := read(c.in)
		if name == "a lock" && len(got) == 1 { // its checksum
			got[0], c.want[0] = got[0][:len(got[0])-12], c.want[0][:len(c.want[0])-12]
		}
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, d)
		}
	}
	if got, want := clientfiles.ParseLine(requirements[1]).Origin, "more/dev.txt:1"; got != want || clientfiles.ParseLine(requirements[0]).Text != "jax==0.7.0" {
		t.Errorf("origin %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"bad.txt":       "bad.txt:2: a password stands in an address",
		"a.txt":         "b.txt includes " + dir + "/a.txt, which includes it",
		"gone.txt":      `the line "./nosuch.whl" of ` + dir + "/gone.txt needs " + dir + "/nosuch.whl, which does not exist",
		"none.txt":      "none.txt does not exist: paths are relative to the cluster file, those of flags to where you are; packages by name are a list, as in [numpy, \"ray[tune]\"]",
		"dynamic.toml":  "dynamic.toml:3: its dependencies are dynamic",
		"sources.toml":  "sources.toml:4: [tool.uv.sources] says where packages are",
		"poetry.toml":   "poetry.toml:1: it has no [project] with dependencies",
		"broken.toml":   "broken.toml:2: it is no TOML: ",
		"alone/uv.lock": "alone/uv.lock:1: no pyproject.toml lies beside it",
	} {
		if _, err := read(file(name)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want %s", name, err, want)
		}
	}
}

// TestInstalled: what means something else on a node, and what cannot be read, is left to Ray.
func TestInstalled(t *testing.T) {
	dir := t.TempDir()
	writeAll(t, dir, map[string]string{"r.txt": "six\n-c pins.txt\n", "pins.txt": "", "local.txt": "six\n./x.whl\n", "x.whl": ""})
	for line, want := range map[string]bool{
		"numpy": true, "-r " + dir + "/r.txt": true, "-r " + dir + "/local.txt": false, "./x.whl": false, "/opt/x.whl": false, "-e .": false, "x @ file:///x.whl": false,
		"${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/x.whl": false, "-r /no/such.txt": false, "x @ https://a:b@example.org/x.whl": false,
	} {
		if got, err := clientfiles.Installed("job.pip", spec.Requirements{Packages: []string{line}, Dir: dir}); (got != nil) != want || err != nil {
			t.Errorf("%s: %q, want %t", line, got, want)
		}
	}
	writeAll(t, dir, map[string]string{"pyproject.toml": "[project]\ndependencies = [\"six=1\"]\n", "r.txt": "six=1\n"})
	if _, err := clientfiles.Installed("job.pip", spec.Requirements{File: filepath.Join(dir, "pyproject.toml")}); err == nil || !strings.Contains(err.Error(), "pyproject.toml:2: \"six=1\" has one =") {
		t.Errorf("of a file that Ray does not read: %v", err)
	}
	if got, err := clientfiles.Installed("job.pip", spec.Requirements{File: filepath.Join(dir, "r.txt")}); got != nil || err != nil {
		t.Errorf("ReadJob says what is wrong with the others: %q, %v", got, err)
	}
}
