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

// project is a directory with a project, and beside it a library; here is its parent.
func project(t *testing.T) (here, dir string) {
	t.Helper()
	here = t.TempDir()
	for _, name := range []string{"p/setup.py", "p/vendor/x.whl", "p/wheels/a.whl", "p/c.txt", "p/sub/c.txt", "p/sub/setup.py", "p/a b/setup.py", "p/x.whl", "lib/setup.py"} {
		path := filepath.Join(here, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return here, filepath.Join(here, "p")
}

// TestLocalPaths: paths of this machine become those of the nodes, in all forms that requirements have; all else stays as it is.
func TestLocalPaths(t *testing.T) {
	_, dir := project(t)
	const w = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"
	lines := map[string]string{
		".": w, ".[dev]": w + "[dev]", "-e .": "-e " + w, "-e.": "-e " + w, "--editable=.": "--editable " + w, "-e .[a,b] # why": "-e " + w + "[a,b] # why", " -e  ./sub ": "-e " + w + "/sub ",
		"./vendor/x.whl": w + "/vendor/x.whl", "vendor/x.whl": w + "/vendor/x.whl", "x.whl": w + "/x.whl", "sub": "sub", "-e sub": "-e " + w + "/sub",
		"./vendor/x.whl ; python_version < '3.12'": w + "/vendor/x.whl ; python_version < '3.12'", "./vendor/x.whl --hash=sha256:00": w + "/vendor/x.whl --hash=sha256:00",
		"./vendor/x.whl \\": w + "/vendor/x.whl \\", "--find-links ./wheels": "--find-links " + w + "/wheels", "--find-links=wheels": "--find-links " + w + "/wheels", "-f wheels": "-f " + w + "/wheels",
		"-c c.txt": "-c " + w + "/c.txt", "--constraint=./c.txt": "--constraint " + w + "/c.txt", "-e './a b'": `-e "` + w + `/a b"`, "./a b": w + "/a b", "-e ../p": "-e " + w,
	}
	for _, same := range []string{
		"numpy==1.26", "numpy[x]>=1 ; python_version<'3.12'", "# ./x", "", "  --hash=sha256:00", "--index-url https://e.com/a", "-i https://e.com/./a", "--extra-index-url=https://e.com",
		"git+https://e.com/a/b.git@main#egg=b", "-e git+ssh://git@e.com/a/b.git", "-e git@e.com:a/b.git", "b @ https://e.com/b.whl", "b @ file:///nodes/b.whl", "https://e.com/b.whl", "file:./x.whl",
		"/nodes/b.whl", "-e /nodes/b", "-c /nodes/c.txt", "-c https://e.com/c.txt", "-f https://e.com/wheels", w + "/x.whl", "-e ${HOME}/b", "--no-binary :all:", "--prefer-binary", "--pre",
	} {
		lines[same] = same
	}
	for line, want := range lines {
		for _, shared := range []bool{true, false} {
			j := &spec.Job{WorkingDir: dir, Pip: spec.Requirements{Packages: []string{line}, Dir: dir}}
			if err := clientfiles.ReadJob(j, "", clientfiles.Nodes{Shared: shared}); err != nil || j.Pip.Packages[0] != want {
				t.Errorf("%q: %q, %v, want %q", line, j.Pip.Packages, err, want)
			}
		}
	}
}

// TestLocalPathsOfFiles: paths in a file are relative to where one works, those of -c to the file; a runtime_env's lists are no different.
func TestLocalPathsOfFiles(t *testing.T) {
	here, dir := project(t)
	const w = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"
	text := "-r in/more.txt\n-e .\n-c c.txt\n"
	if err := os.MkdirAll(filepath.Join(dir, "sub", "in"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"sub/r.txt": text, "sub/in/more.txt": "./vendor/x.whl\n./setup\n-c ../c.txt\n", "sub/in/setup/x": ""} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{w + "/vendor/x.whl", w + "/sub/in/setup", "-c " + w + "/sub/c.txt", "-e " + w}
	file := filepath.Join(dir, "sub", "r.txt")
	j := &spec.Job{WorkingDir: dir, Uv: spec.Requirements{File: file, Dir: dir}, RuntimeEnv: spec.Object{"pip": map[string]any{"packages": []any{"-e ."}}}}
	if err := clientfiles.ReadJob(j, dir, clientfiles.Nodes{}); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, slices.Compact(j.Uv.Packages)); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(spec.Object{"pip": map[string]any{"packages": []any{"-e " + w}}}, j.RuntimeEnv); d != "" {
		t.Error(d)
	}
	env := map[string]any{"uv": []any{"numpy", "./lib"}}
	if err := clientfiles.ReadRuntimeEnv("x", here, env, clientfiles.Nodes{WorkingDir: here}); err != nil || env["uv"].([]any)[1] != w+"/lib" {
		t.Errorf("%v, %v", env, err)
	}
}

// TestLocalPathsElsewhere: what the nodes do not have is refused with a way out; where they have this machine's directories, they use these.
func TestLocalPathsElsewhere(t *testing.T) {
	here, dir := project(t)
	link := filepath.Join(here, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line, workingDir string
		nodes            clientfiles.Nodes
		want             string
	}{
		{"-e ../lib", dir, clientfiles.Nodes{Shared: true}, "-e " + here + "/lib"},
		{"-e .", "", clientfiles.Nodes{Shared: true}, "-e " + dir},
		{"-e .", "s3://b/p.zip", clientfiles.Nodes{Shared: true}, "-e " + dir},
		{"-e .", dir, clientfiles.Nodes{Shared: true, OldRay: true}, "-e " + dir},
		{"-e .", link, clientfiles.Nodes{}, "-e ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"},
		{"-e ../lib", dir, clientfiles.Nodes{}, `job.pip: the line "-e ../lib" needs ` + here + "/lib, which is not in the working directory " + dir + ": choose a job.workingDir that has it, or write"},
		{"-e .", "", clientfiles.Nodes{}, `needs ` + dir + ", and no directory is sent to the nodes: send a directory that has it (job.workingDir, --working-dir .), or write"},
		{"-e .", dir, clientfiles.Nodes{OldRay: true}, "and this Ray cannot install from the working directory: set ray.version to 2.10 or later"},
		{"./nosuch.whl", dir, clientfiles.Nodes{Shared: true}, "needs " + dir + "/nosuch.whl, which does not exist: paths in requirements are relative to the cluster file"},
	} {
		j := &spec.Job{WorkingDir: c.workingDir, Pip: spec.Requirements{Packages: []string{c.line}, Dir: dir}}
		if err := clientfiles.ReadJob(j, "", c.nodes); err == nil && j.Pip.Packages[0] != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %q, %v", c, j.Pip.Packages, err)
		}
	}
}

func TestSent(t *testing.T) {
	const w = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"
	for line, want := range map[string]string{
		"-e " + w: ".", w + "[dev]": ".", w + "/a/x.whl ; python_version < '3'": "a/x.whl", w + "/a/x.whl --hash=sha256:00": "a/x.whl", w + "/x.whl # why": "x.whl",
		`-e "` + w + `/a b"`: "a b", w + "/x.whl \\": "x.whl", "# " + w + "/x": "", "numpy": "", "-c " + w + "/c.txt": "c.txt",
	} {
		if got, ok := clientfiles.Sent(line); got != want || ok != (want != "") {
			t.Errorf("%q: %q, %v", line, got, ok)
		}
	}
	if got := clientfiles.Rebase("-e ./x[dev]", "/a/b", "/a/c"); got != "-e ./../b/x[dev]" {
		t.Error(got)
	}
}
