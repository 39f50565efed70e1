package app

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/raytest"
)

// rayReads prints, for each [directory, runtime_env], what Ray's SDK sends to a cluster if it is called there; null if Ray refuses it.
const rayReads = `
import json, os, sys
from ray.runtime_env import RuntimeEnv

def sent(directory, env):
    os.chdir(directory)
    try:
        return RuntimeEnv(**env).to_dict()
    except Exception as e:
        print(directory, env, repr(e), file=sys.stderr)
        return None

json.dump([sent(*case) for case in json.load(sys.stdin)], sys.stdout)
`

func askRay(t *testing.T, cases [][2]any) (answers []map[string]any) {
	t.Helper()
	input, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), raytest.Env(t, raytest.Ray260), "-c", rayReads)
	c.Stdin, c.Env = bytes.NewReader(input), append(os.Environ(), "PYTHONUTF8=1")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &stderr)
	}
	t.Logf("Ray's reasons:\n%s", &stderr)
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(cases) {
		t.Fatalf("%v in %q", err, out)
	}
	return answers
}

// writeAll makes files below a directory.
func writeAll(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sentEnv is the runtime_env sent to the cluster for a job section of a cluster file in dir, which is not the current directory.
func sentEnv(dir, job string, flags ...string) (map[string]any, error) {
	j, err := sentJob(dir, job, flags...)
	if err != nil {
		return nil, err
	}
	return runtimeEnv(j), nil
}

func sentJob(dir, job string, flags ...string) (*spec.Job, error) {
	if err := os.WriteFile(filepath.Join(dir, "rayctl.yaml"), []byte("name: a\njob: {"+job+"}\n"), 0o644); err != nil {
		return nil, err
	}
	f := pflag.NewFlagSet("run", pflag.ContinueOnError)
	config.AddSpec(f)
	if err := f.Parse(append([]string{"-f", filepath.Join(dir, "rayctl.yaml")}, flags...)); err != nil {
		return nil, err
	}
	l, err := config.Load(config.Options{Flags: f})
	if err == nil {
		err = l.ReadJobFiles(false)
	}
	if err != nil {
		return nil, err
	}
	return &l.Spec.Job, nil
}

// TestRuntimeEnvAsRay compares the runtime environments that rayctl sends with those that Ray's own SDK sends.
func TestRuntimeEnvAsRay(t *testing.T) {
	t.Chdir(t.TempDir()) // file names are not relative to this
	var cases [][2]any
	var names []string
	compare := func(name, dir, job, runtimeEnv string) {
		var theirs map[string]any
		if err := json.Unmarshal([]byte(runtimeEnv), &theirs); err != nil {
			t.Fatal(err)
		}
		ours, err := sentEnv(dir, job)
		if files := spec.ClientFiles(ours); len(files) > 0 {
			t.Errorf("%s: %s: the cluster is given the file name %s", name, job, files[0].File)
		}
		if err != nil {
			t.Logf("our reason: %v", err)
			ours = map[string]any{"pip": 0} // Ray refuses this, too
		}
		cases, names = append(cases, [2]any{dir, theirs}, [2]any{dir, ours}), append(names, name+": "+job)
	}
	for name, text := range map[string]string{
		"plain": "numpy==1.26.0\nrequests\n", "no final line end": "a\nb", "Windows": "a\r\nb\r\n", "old Mac": "a\rb\r", "comments": "# first\na  # why\n\n\n  # second\nb\n",
		"twice": "a\nb\na\n# x\n\n# x\n\n", "white space": " \n\t\x1c a \n  b\t\n \u00a0\u2028\x1f", "byte order mark": "\ufeffa\nb\n", "empty": "", "blank": " \n\n", "inside": "a\x0c\u0085b\vc\n",
		"options":  "--index-url https://example.com/s\n-r https://example.com/r.txt\n-r /nodes/r.txt\n-r ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/r.txt\na \\\n  --hash=sha256:00\n",
		"not text": "a\xff\n", "unicode": "ü @ https://example.com/ü.whl ; python_version < '3.12'\n",
	} {
		dir := t.TempDir()
		writeAll(t, dir, map[string]string{"requirements.txt": text})
		compare(name, dir, "pip: requirements.txt", `{"pip": "requirements.txt"}`)
		compare(name, dir, "uv: ./requirements.txt", `{"uv": "requirements.txt"}`)
		compare(name, dir, "runtimeEnv: {pip: requirements.txt}", `{"pip": "requirements.txt"}`)
		compare(name, dir, "runtimeEnv: {uv: requirements.txt, config: {setup_timeout_seconds: 9}}", `{"uv": "requirements.txt", "config": {"setup_timeout_seconds": 9}}`)
		compare(name, dir, "runtimeEnv: {pip: {packages: requirements.txt, pip_check: true, pip_version: ==24.0}}", `{"pip": {"packages": "requirements.txt", "pip_check": true, "pip_version": "==24.0"}}`)
	}
	dir := t.TempDir()
	writeAll(t, dir, map[string]string{
		"env.yaml": "name: x\nchannels: [conda-forge]\ndependencies:\n- python=3.11\n- pip:\n  - numpy # why\n  - 'requests>=2'\n", "env.yml": "dependencies: [a]\nvariables: {A: '1', B: 2, C: 0.5, D: true, E: }\n",
		"broken.yaml": "a: [", "sub.yaml/x": "", "sub.txt/x": "",
	})
	compare("conda", dir, "runtimeEnv: {conda: env.yaml}", `{"conda": "env.yaml"}`)
	compare("conda", dir, "runtimeEnv: {conda: env.yml}", `{"conda": "env.yml"}`)
	compare("conda", dir, "runtimeEnv: {conda: broken.yaml}", `{"conda": "broken.yaml"}`)
	compare("conda", dir, "runtimeEnv: {conda: nosuch.yml}", `{"conda": "nosuch.yml"}`)
	compare("conda", dir, "runtimeEnv: {conda: sub.yaml}", `{"conda": "sub.yaml"}`)
	compare("conda by name", dir, "runtimeEnv: {conda: pytorch}", `{"conda": "pytorch"}`)
	compare("conda in place", dir, "runtimeEnv: {conda: {dependencies: [pip]}}", `{"conda": {"dependencies": ["pip"]}}`)
	compare("conda directory", dir, "runtimeEnv: {conda: "+dir+"}", `{"conda": "`+dir+`"}`)
	for _, key := range []string{"pip", "uv"} {
		compare("list", dir, key+": [a, 'b # x', a]", `{"`+key+`": ["a", "b # x", "a"]}`)
		compare("missing", dir, key+": nosuch.txt", `{"`+key+`": "nosuch.txt"}`)
		compare("directory", dir, key+": sub.txt", `{"`+key+`": "sub.txt"}`)
		compare("missing", dir, "runtimeEnv: {"+key+": nosuch.txt}", `{"`+key+`": "nosuch.txt"}`)
		compare("map", dir, "runtimeEnv: {"+key+": {packages: [a]}}", `{"`+key+`": {"packages": ["a"]}}`)
	}
	compare("missing", dir, "runtimeEnv: {pip: {packages: nosuch.txt}}", `{"pip": {"packages": "nosuch.txt"}}`)
	compare("uv's packages are no file", dir, "runtimeEnv: {uv: {packages: env.yaml}}", `{"uv": {"packages": "env.yaml"}}`)
	answers := askRay(t, cases)
	for i, name := range names {
		if d := cmp.Diff(answers[2*i], answers[2*i+1]); d != "" {
			t.Errorf("%s (-Ray's +ours):\n%s", name, d)
		}
	}
}

// TestInstalledFromWorkingDir: requirements that need the working directory name its package, so that Ray installs changed files, and the package must have them.
func TestInstalledFromWorkingDir(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	writeAll(t, dir, map[string]string{"r.txt": "numpy\n-e .[dev]\n./vendor/x.whl\n", "vendor/x.whl": "", "setup.py": "", ".gitignore": "*.log\n"})
	packed := func() (map[string]any, error) {
		j, err := sentJob(dir, "workingDir: ., pip: r.txt")
		if err != nil {
			return nil, err
		}
		a := &App{Streams: terminal.Streams{Err: io.Discard, Now: time.Now}, Getenv: os.Getenv}
		a.UI = terminal.NewUI(&a.Streams, a.Getenv)
		p, err := a.Packages(j)(t.Context())
		if err != nil {
			return nil, err
		}
		return p.RuntimeEnv, nil
	}
	env, err := packed()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"numpy", "-e ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}[dev]", "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/vendor/x.whl", "# " + env["working_dir"].(string)}
	if d := cmp.Diff(want, env["pip"]); d != "" {
		t.Error(d)
	}
	writeAll(t, dir, map[string]string{".gitignore": "*.whl\n"})
	if _, err = packed(); err == nil || !strings.Contains(err.Error(), `leaves out vendor/x.whl, which the requirement "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/vendor/x.whl" needs: include it again`) {
		t.Error(err)
	}
}

// TestRequirementsPaths: names are relative to the file that contains them, those in flags to the current directory.
func TestRequirementsPaths(t *testing.T) {
	dir, here := t.TempDir(), t.TempDir()
	t.Setenv("HOME", filepath.Join(dir, "home"))
	t.Chdir(here)
	writeAll(t, here, map[string]string{"r.txt": "here\n"})
	writeAll(t, dir, map[string]string{
		"r.txt": "beside\n", "home/r.txt": "home\n", "top.txt": "a\n-r sub/base.txt  # theirs\nb\n", "sub/base.txt": "c\n--requirement=more.txt\na\n", "sub/more.txt": "d\n",
		"env.yaml": "dependencies:\n- python\n- pip: [x, -r sub/more.txt]\n",
	})
	for _, c := range []struct {
		job  string
		set  []string
		want map[string]any
	}{
		{"pip: r.txt", nil, map[string]any{"pip": []string{"beside"}}},
		{"runtimeEnv: {pip: r.txt}", nil, map[string]any{"pip": []any{"beside"}}},
		{"uv: ~/r.txt", nil, map[string]any{"uv": []string{"home"}}},
		{"pip: " + here + "/r.txt", nil, map[string]any{"pip": []string{"here"}}},
		{"uv: [x]", []string{"--set", "job.uv=r.txt"}, map[string]any{"uv": []string{"here"}}},
		{"", []string{"--set", "job.runtimeEnv={pip: {packages: r.txt}}"}, map[string]any{"pip": map[string]any{"packages": []any{"here"}}}},
		{"", []string{"--set", "job.runtimeEnv.pip=r.txt"}, map[string]any{"pip": []any{"here"}}},
		{"pip: top.txt", nil, map[string]any{"pip": []string{"a", "c", "d", "b"}}},
		{"runtimeEnv: {conda: env.yaml}", nil, map[string]any{"conda": map[string]any{"dependencies": []any{"python", map[string]any{"pip": []any{"x", "d"}}}}}},
	} {
		got, err := sentEnv(dir, c.job, c.set...)
		if d := cmp.Diff(c.want, got); err != nil || d != "" {
			t.Errorf("%s %q: %v\n%s", c.job, c.set, err, d)
		}
	}
}

// TestSent is the line that says what is sent and what is not.
func TestSent(t *testing.T) {
	for want, s := range map[string]Sent{
		"1 file, 12 B":     {Files: 1, Bytes: 12},
		"42 files, 1.3 MB": {Files: 42, Bytes: 1_300_000},
		"42 files, 1.3 MB; left out by .gitignore: data/ (3.1 GB), *.ckpt (2); `--excludes '!data'` sends data/": {Files: 42, Bytes: 1_300_000, LeftOut: []pack.LeftOut{{Name: "data/", Count: 1, Bytes: 3.1e9}, {Name: "*.ckpt", Count: 2}}},
		"0 files, 0 B; left out by .gitignore: data/ (more than 15 MB), build/ (3, 20 B), unread/, .env and 2 more; `--excludes '!data'` sends data/": {LeftOut: []pack.LeftOut{
			{Name: "data/", Count: 1, Bytes: 15e6, More: true}, {Name: "build/", Count: 3, Bytes: 20}, {Name: "unread/", Count: 1, More: true}, {Name: ".env", Count: 1}, {Name: "a"}, {Name: "b"},
		}},
	} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
