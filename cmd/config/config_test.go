package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
	"github.com/rayctl/rayctl/local/localspec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// fixture is a folder with files, a clean environment, and a command's flags.
type fixture struct {
	t     *testing.T
	dir   string
	flags *pflag.FlagSet
}

func newFixture(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	f := &fixture{t: t, dir: t.TempDir(), flags: pflag.NewFlagSet("run", pflag.ContinueOnError)}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, environ.Prefix) {
			t.Setenv(name, "") // restored after the test
			if err := os.Unsetenv(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(f.dir, "user"))
	for name, text := range files {
		p := filepath.Join(f.dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	AddSpec(f.flags)
	return f
}

func (f *fixture) load(in string, args ...string) (*Loaded, error) {
	f.t.Helper()
	if file, ok := f.flags.Lookup("file").Value.(*once); ok {
		file.given = false // each call is a command line of its own
	}
	if err := f.flags.Parse(args); err != nil {
		f.t.Fatal(err)
	}
	return Load(Options{Flags: f.flags, Dir: filepath.Join(f.dir, in)})
}

func (f *fixture) must(in string, args ...string) *Loaded {
	f.t.Helper()
	l, err := f.load(in, args...)
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func (f *fixture) fails(want, in string, args ...string) {
	f.t.Helper()
	_, err := f.load(in, args...)
	if err == nil || !strings.Contains(err.Error(), want) {
		f.t.Errorf("got  %v\nwant %s", err, want)
	}
}

const userConfig = "user/rayctl/config.yaml"

// TestUnknownRuntimeEnv: keys that Ray does not know are noted with their place and the nearest one; Ray's own are not.
func TestUnknownRuntimeEnv(t *testing.T) {
	files := map[string]string{
		"rayctl.yaml": "name: a\njob:\n  runtimeEnv:\n    pypi: [numpy]\n    workingDir: .\n    py_executabel: python\n    mine: {a: 1}\n    config: {eager_install: false}\n    conda: base\n    _nsight: x\n",
		"ray.yaml":    "env_var: {A: b}\n", "none.yaml": "name: a\n",
	}
	told := func(args ...string) string {
		return strings.Join(newFixture(t, files).must("", args...).Warnings, "\n")
	}
	const tail = " is no key of Ray's runtime_env, and has no effect unless the nodes' Ray has a plugin for it: "
	want := "job.runtimeEnv.mine (rayctl.yaml:7)" + tail + "Ray's keys are py_executable, java_jars, conda, container, image_uri, config, worker_process_setup_hook, nsight, rocprof_sys, mpi, env_vars, excludes, pip, py_modules, uv, working_dir\n" +
		"job.runtimeEnv.py_executabel (rayctl.yaml:6)" + tail + "did you mean py_executable?\n" +
		"job.runtimeEnv.pypi (rayctl.yaml:4)" + tail + "did you mean pip (job.pip)?\n" +
		"job.runtimeEnv.workingDir (rayctl.yaml:5)" + tail + "did you mean working_dir (job.workingDir)?"
	if d := cmp.Diff(want, told()); d != "" {
		t.Error(d)
	}
	if got, want := told("-f", "none.yaml", "--runtime-env", "ray.yaml"), "job.runtimeEnv.env_var (ray.yaml:1)"+tail+"did you mean env_vars (job.env)?"; got != want {
		t.Error(got)
	}
	if got, want := told("-f", "none.yaml", "--runtime-env-json", `{"requirements": ["a"]}`), "job.runtimeEnv.requirements (--runtime-env-json:1)"+tail+"did you mean pip (job.pip)?"; got != want {
		t.Error(got)
	}
}

// TestLayers sets one key in more and more layers; the highest wins each time, and is reported as the origin.
func TestLayers(t *testing.T) {
	steps := []struct {
		what, file, text string // the file that is added
		variable         string // or the variable's value
		args             []string
		want, wantWhere  string
	}{
		{what: "nothing", want: "none", wantWhere: "default"},
		{
			what: "default profile", file: userConfig,
			text: "profiles:\n  default:\n    slurm: {containerRuntime: apptainer, containerImage: d}\n  site:\n    slurm: {containerRuntime: pyxis, containerImage: s}\n",
			want: "apptainer", wantWhere: "config.yaml:3 (profile default)",
		},
		{what: "file", file: "rayctl.yaml", text: "slurm:\n  containerRuntime: none\n", want: "none", wantWhere: "rayctl.yaml:2"},
		{what: "chosen profile", args: []string{"--profile", "site"}, want: "pyxis", wantWhere: "config.yaml:5 (profile site)"},
		{what: "variable", variable: "apptainer", args: []string{"--profile", "site"}, want: "apptainer", wantWhere: "RAYCTL_SLURM_CONTAINERRUNTIME"},
		{what: "flag", args: []string{"--profile", "site", "--set", "slurm.containerRuntime=pyxis"}, want: "pyxis", wantWhere: "--set"},
	}
	for i, s := range steps {
		t.Run(s.what, func(t *testing.T) {
			files, variable := map[string]string{}, ""
			for _, step := range steps[:i+1] {
				if step.file != "" {
					files[step.file] = step.text
				}
				if step.variable != "" {
					variable = step.variable
				}
			}
			f := newFixture(t, files)
			if variable != "" {
				t.Setenv("RAYCTL_SLURM_CONTAINERRUNTIME", variable)
			}
			l := f.must("", append([]string{"--launcher", "slurm"}, s.args...)...)
			if got := slurmspec.Of(l.Spec).ContainerRuntime; got != s.want {
				t.Errorf("got %q, want %q", got, s.want)
			}
			if got := l.Origins.of("slurm.containerRuntime"); !strings.HasSuffix(got, s.wantWhere) {
				t.Errorf("from %q, want %q", got, s.wantWhere)
			}
		})
	}
}

func TestScalarFlagsAndVariables(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "name: a\nray: {version: 2.40.0}\njob: {env: {MixedCase: x, lower: y}}\nlabels: {team/A.b: z}\n"})
	t.Setenv("RAYCTL_NAME", "from-env")
	t.Setenv("RAYCTL_LIFETIME_MAX", "90m")
	t.Setenv("RAYCTL_GANG", "false")
	l := f.must("", "--name", "from-flag", "--ray-version", "2.60.0", "--env", "A=$(id) 'x' \"y\"\n=z", "--label", "team/A.b=q")
	want := spec.ClusterSpec{Name: "from-flag", Ray: spec.Ray{Version: "2.60.0"}}
	if l.Spec.Name != want.Name || l.Spec.Ray.Version != want.Ray.Version || *l.Spec.Gang || l.Spec.Lifetime.Max.String() != "1h30m" {
		t.Errorf("%+v", l.Spec)
	}
	if d := cmp.Diff(map[string]string{"MixedCase": "x", "lower": "y", "A": "$(id) 'x' \"y\"\n=z"}, l.Spec.Job.Env); d != "" {
		t.Error(d)
	}
	if l.Spec.Labels["team/A.b"] != "q" {
		t.Errorf("labels: %v", l.Spec.Labels)
	}
}

func TestWorkersFlags(t *testing.T) {
	two := "workers:\n- {name: trainer, replicas: 1}\n- {name: rollout, replicas: 1, gpus: 1}\n"
	for _, c := range []struct {
		name, file string
		args       []string
		want       string // of Values below workers, or of the error
	}{
		{"new group", "", []string{"--workers", "3", "--cpus-per-worker", "2"}, "workers.worker.replicas=3 workers.worker.cpus=2"},
		{"named new groups", "", []string{"--workers", "a=1", "--workers", "b=2"}, "workers.a.replicas=1 workers.b.replicas=2"},
		{"none", "", []string{"--workers", "0"}, ""},
		{"the only group", "workers: [{name: t}]\n", []string{"--workers", "5"}, "workers.t.replicas=5"},
		{"one of two", two, []string{"--workers", "rollout=4", "--gpus-per-worker", "rollout=h100:8"},
			"workers.trainer.replicas=1 workers.rollout.replicas=4 workers.rollout.gpus=8 workers.rollout.gpuType=h100"},
		{"all", two, []string{"--gpus-per-worker", "2", "--memory-per-worker", "trainer=4Gi"},
			"workers.trainer.replicas=1 workers.trainer.memory=4Gi workers.trainer.gpus=2 workers.rollout.replicas=1 workers.rollout.gpus=2"},
		{"set", two, []string{"--set", "workers.trainer.replicas=2", "--set", "workers.trainer.resources={x: 1}"},
			"workers.trainer.replicas=2 workers.trainer.resources.x=1 workers.rollout.replicas=1 workers.rollout.gpus=1"},
		{"which", two, []string{"--workers", "5"}, "--workers: the file has 2 worker groups: trainer, rollout: name the group"},
		{"unknown group", two, []string{"--workers", "rolout=5"}, `--workers: there is no worker group "rolout": did you mean "rollout"?`},
		{"unknown group in set", two, []string{"--set", "workers.x.replicas=5"}, `--set: workers: there is no worker group "x": the groups are trainer, rollout`},
		{"no group", "", []string{"--gpus-per-worker", "1"}, "--gpus-per-worker: there are no workers: add --workers 1, or as many as you want"},
		{"no number", "", []string{"--workers", "many"}, `--workers: workers.worker.replicas: must be a whole number, not "many"`},
		{"negative", "", []string{"--workers", "-1"}, `--workers: workers.worker.replicas: -1 is negative`},
		{"unknown key", two, []string{"--set", "workers.trainer.gpu=1"}, `--set: workers.trainer: unknown key "gpu": did you mean "gpus"?`},
		{"nothing set", "", []string{"--set", "name"}, `--set: "name" sets nothing`},
		{"no key", "", []string{"--set", "=x"}, `--set: "=x" sets nothing`},
		{"below a value", "", []string{"--set", "name.x=1"}, `--set: name: has no key "x" below it: set name itself`},
		{"below a value of the file", "name: a\n", []string{"--set", "name.x=1"}, `--set: name: is a single value and has no key "x" below it: set name itself`},
		{"below nothing", "", []string{"--set", "name.=1"}, "--set: name: has no key \"\" below it: `rayctl schema` lists the keys with their meaning"},
		{"hostile group", "", []string{"--workers", "$(id)=1"}, `--workers: "$(id)" cannot be the name of a worker group`},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			if c.file != "" {
				files["rayctl.yaml"] = c.file
			}
			f := newFixture(t, files)
			l, err := f.load("", c.args...)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || c.want == "" {
					t.Fatalf("got  %v\nwant %s", err, c.want)
				}
				return
			}
			if got := groupValues(t, l); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// groupValues are the explicit values below workers, without the names.
func groupValues(t *testing.T, l *Loaded) string {
	t.Helper()
	values, err := l.Values()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, v := range values {
		if strings.HasPrefix(v.Path, "workers.") && v.Origin != originDefault && !strings.HasSuffix(v.Path, ".name") {
			out = append(out, v.Path+"="+v.Value)
		}
	}
	return strings.Join(out, " ")
}

func TestSearch(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "name: outside\n", "repo/rayctl.yaml": "name: top\n", "repo/a/b/x": "", "repo/.git/HEAD": "", "other/x": "", "repo/c/rayctl.yaml": "name: near\n"})
	for in, want := range map[string]string{"repo": "top", "repo/a/b": "top", "repo/c": "near", "other": "other", "": "outside"} {
		if l := f.must(in); l.Spec.Name != want {
			t.Errorf("in %q: %q, want %q", in, l.Spec.Name, want)
		}
	}
	if l := f.must("repo/a/b"); l.File != "../../rayctl.yaml" {
		t.Errorf("named %q", l.File)
	}
	if l := f.must("other", "-f", "../repo/c/rayctl.yaml"); l.Spec.Name != "near" {
		t.Errorf("-f: %q", l.Spec.Name)
	}
	f.fails("nowhere.yaml: the cluster file cannot be read: no such file or directory", "", "-f", "nowhere.yaml")
}

// TestScript: a script in place of a cluster file is named so, and YAML with a line of a script in it is read.
func TestScript(t *testing.T) {
	for _, text := range []string{"#!/bin/bash\n\"$D/bin/ray\" \\\n  start\n", "#! /bin/sh -e\nname: ray start\n", "srun -N 1 ray start --head\n", "ray job submit -- a\n"} {
		f := newFixture(t, map[string]string{"it's.sbatch": text})
		f.fails("it's.sbatch: is a shell script, not a cluster file: `rayctl init --from 'it'\"'\"'s.sbatch'` writes the rayctl.yaml of a script that starts Ray", "", "-f", "it's.sbatch")
	}
	for _, text := range []string{"#!/usr/bin/env -S bash -e\nsleep 1\n# ray start\n", "#SBATCH -N 2\nsrun hostname\n", "python a.py\n"} {
		f := newFixture(t, map[string]string{"it's.sbatch": text})
		f.fails("it's.sbatch: is a shell script, not a cluster file, and does not start Ray: `rayctl run -- bash 'it'\"'\"'s.sbatch'` runs it as a job on a Ray cluster", "", "-f", "it's.sbatch")
	}
	for _, text := range []string{"#!/usr/bin/env python3\n", "import ray\n\nray.init()\n", "print({"} {
		f := newFixture(t, map[string]string{"it's.py": text})
		f.fails("it's.py: is a Python program, not a cluster file: `rayctl run -- python 'it'\"'\"'s.py'` runs it as a job on a Ray cluster", "", "-f", "it's.py")
	}
	f := newFixture(t, map[string]string{"a.yaml": "#SBATCH -N 2\nname: a\nsetup: |\n  ray start --help\n", "b.yaml": "#!/usr/bin/env rayctl\nname: b\n", "c.yaml": "name: [\n"})
	if a, b := f.must("", "-f", "a.yaml"), f.must("", "-f", "b.yaml"); a.Spec.Name != "a" || b.Spec.Name != "b" {
		t.Error(a.Spec.Name, b.Spec.Name)
	}
	f.fails("is not valid YAML", "", "-f", "c.yaml")
}

// TestPackages: --requirements takes the place of job.pip, --pip and --with come beside what is there.
func TestPackages(t *testing.T) {
	files := map[string]string{
		"r.txt": "a==1\nb\n", "other.txt": "z\n", "in/x.whl": "", "y.whl": "",
		"list.yaml": "job: {pip: [x]}\n", "file.yaml": "job: {pip: other.txt}\n", "uv.yaml": "job: {uv: [u]}\n", "wd.yaml": "job: {workingDir: ., pip: [./y.whl]}\n", "in/x": "",
	}
	for args, want := range map[string]string{
		"--pip c --with d>=2":                     "[c d>=2] []",
		"-r ../r.txt":                             "[a==1 b] []",
		"-r ../r.txt --pip c":                     "[a==1 b c] []",
		"-f ../list.yaml --pip c":                 "[x c] []",
		"-f ../list.yaml --requirements ../r.txt": "[a==1 b] []",
		"-f ../file.yaml --pip c":                 "[z c] []",
		"-f ../uv.yaml --with c":                  "[] [u c]",
		"-f ../wd.yaml --pip ./x.whl":             "[${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/y.whl ${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/in/x.whl] []",
		"--working-dir .. --pip ./x.whl":          "[${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/in/x.whl] []",
	} {
		l := newFixture(t, files).must("in", strings.Fields(args)...)
		if err := l.ReadJobFiles(false); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(l.Spec.Job.Pip.Packages, l.Spec.Job.Uv.Packages); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	newFixture(t, files).fails("--requirements: job.uv has packages already (uv.yaml:1)", "", "-f", "uv.yaml", "-r", "r.txt")
	l := newFixture(t, files).must("", "-r", "nosuch.txt")
	if err := l.ReadJobFiles(false); err == nil || !strings.Contains(err.Error(), "--requirements: job.pip: ") {
		t.Errorf("no such file: %v", err)
	}
	newFixture(t, files).fails("--pip: job.pip[0]: -r r.txt names a file that the nodes do not have", "", "--pip", "-r r.txt")
}

// TestReadPackages: on this machine a run's packages go into the environment that rayctl makes, unless they mean something else on the nodes or the environment is the
// user's.
func TestReadPackages(t *testing.T) {
	files := map[string]string{
		"rayctl.yaml": "local: {packages: [x]}\n", "r.txt": "a==1\n", "local.txt": "./y.whl\n", "y.whl": "", "plain.yaml": "{}\n",
		"pyproject.toml": "[project]\ndependencies = [\n\"p\"]\n",
	}
	for args, want := range map[string]string{
		"-r r.txt --pip c":                   "[x a==1  # r.txt:1 c] [] []",
		"--uv c":                             "[x c] [] []",
		"-r pyproject.toml":                  "[x p  # pyproject.toml:3] [] []",
		"-r local.txt":                       "[x] [${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}/y.whl] []",
		"-f plain.yaml --python /v --pip c":  "[] [c] []",
		"--launcher slurm --pip c -r r.txt":  "[] [a==1 c] []",
		"--set local.packages=r.txt --pip c": "[a==1  # r.txt:1 c] [] []",
	} {
		l := newFixture(t, files).must("", append(strings.Fields(args), "--working-dir", ".")...)
		if err := errors.Join(l.ReadPackages(true), l.ReadJobFiles(false)); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		var packages []string
		if l.Spec.Launcher == "local" {
			packages = localspec.Packages(l.Spec)
		}
		if got := fmt.Sprint(packages, l.Spec.Job.Pip.Packages, l.Spec.Job.Uv.Packages); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	l := newFixture(t, files).must("", "-r", "r.txt")
	if err := l.ReadPackages(false); err != nil || len(localspec.Packages(l.Spec)) != 1 || l.Spec.Job.Pip.File == "" {
		t.Errorf("a command without a job: %v, %v", localspec.Packages(l.Spec), err)
	}
}

// TestRuntimeEnv: a runtime_env in Ray's own form goes over the file's job, and under the other flags.
func TestRuntimeEnv(t *testing.T) {
	files := map[string]string{
		"rayctl.yaml":  "job: {workingDir: other, pip: [x], pyModules: [m], env: {A: file, B: file}, excludes: [a], runtimeEnv: {config: {eager_install: false}}}\n",
		"uv.yaml":      "job: {uv: [u], runtimeEnv: {pip: {packages: [x]}}}\n",
		"env/env.yaml": "working_dir: code\nenv_vars: {A: flag, V: 3.10}\npy_modules: [mod, 's3://b/m.zip']\nexcludes: ['*.bin']\nconfig: {setup_timeout_seconds: 9}\n",
		"empty.yaml":   "",
	}
	load := func(args ...string) spec.Job { return newFixture(t, files).must("", args...).Spec.Job }
	j := load("--runtime-env", "env/env.yaml", "-e", "A=set", "--excludes", "b", "--py-modules", "n")
	dir := filepath.Dir(j.WorkingDir)
	want := spec.Job{WorkingDir: dir + "/code", Env: map[string]string{"A": "set", "B": "file", "V": "3.10"}, Pip: j.Pip,
		PyModules: []string{dir + "/mod", "s3://b/m.zip", dir + "/n"}, Excludes: []string{"*.bin", "b"},
		RuntimeEnv: spec.Object{"config": map[string]any{"eager_install": false, "setup_timeout_seconds": int64(9)}}}
	want.Grace, want.Restarts = j.Grace, j.Restarts
	if d := cmp.Diff(want, j); d != "" {
		t.Error(d)
	}
	if j := load("--runtime-env", "env/env.yaml", "--working-dir", "here", "--set", "job.env={}"); filepath.Base(j.WorkingDir) != "here" {
		t.Errorf("--working-dir beside --runtime-env: %q", j.WorkingDir)
	}
	for args, want := range map[string]string{
		`{"pip": ["p"]}`: "[p] [] map[config:map[eager_install:false]]",
		`{"uv": ["p"]}`:  "[] [p] map[config:map[eager_install:false]]",
		`{"pip": {"packages": ["p"], "pip_check": false}}`: "[] [] map[config:map[eager_install:false] pip:map[packages:[p] pip_check:false]]",
		`{}`: "[x] [] map[config:map[eager_install:false]]",
	} {
		j := load("--runtime-env-json", args)
		if got := fmt.Sprint(j.Pip.Packages, j.Uv.Packages, j.RuntimeEnv); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
	if j := load("-f", "uv.yaml", "--runtime-env-json", `{"pip": ["p"]}`, "--pip", "q"); fmt.Sprint(j.Pip.Packages, j.Uv.Packages, j.RuntimeEnv) != "[p q] [] map[]" {
		t.Errorf("%+v", j)
	}
	if j := load("-f", "empty.yaml", "--uv", "a", "--uv", "b==1"); fmt.Sprint(j.Uv.Packages) != "[a b==1]" {
		t.Errorf("%+v", j)
	}
	fails := func(want string, args ...string) { newFixture(t, files).fails(want, "", args...) }
	fails("--runtime-env: none.yaml cannot be read: no such file or directory", "--runtime-env", "none.yaml")
	fails("--runtime-env-json: --runtime-env is given, too: leave out one of them", "--runtime-env", "empty.yaml", "--runtime-env-json", "{}")
	fails(`--runtime-env-json: "{'a'" is not JSON: write it like`, "--runtime-env-json", "{'a'")
	fails("a runtime_env is a map of keys, this is a list: write it like", "--runtime-env-json", "[]")
	fails("--runtime-env-json:1: job.env: must be a map, not a list", "--runtime-env-json", `{"env_vars": []}`)
	fails("there are both pip and uv: keep one of them", "--uv", "a")
}

// TestOtherEnding: rayctl.yml is found, too; beside a rayctl.yaml it is named as not read.
func TestOtherEnding(t *testing.T) {
	f := newFixture(t, map[string]string{"yml/rayctl.yml": "name: yml\n", "both/rayctl.yml": "name: yml\n", "both/rayctl.yaml": "name: yaml\n"})
	if l := f.must("yml"); l.Spec.Name != "yml" || l.File != "rayctl.yml" || len(l.Warnings) != 0 {
		t.Errorf("%q of %q, warnings %q", l.Spec.Name, l.File, l.Warnings)
	}
	if l := f.must("both"); l.Spec.Name != "yaml" || len(l.Warnings) != 1 || l.Warnings[0] != "rayctl.yml is not read, because rayctl.yaml is there" {
		t.Errorf("%q of %q, warnings %q", l.Spec.Name, l.File, l.Warnings)
	}
}

func TestStandardInput(t *testing.T) {
	f := newFixture(t, nil)
	if err := f.flags.Parse([]string{"-f", "-"}); err != nil {
		t.Fatal(err)
	}
	l, err := Load(Options{Flags: f.flags, Dir: f.dir, Stdin: strings.NewReader("name: piped\njob: {workingDir: src}\n")})
	if err != nil || l.Spec.Name != "piped" || l.Spec.Job.WorkingDir != filepath.Join(f.dir, "src") {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestRelativePaths(t *testing.T) {
	f := newFixture(t, map[string]string{
		"repo/rayctl.yaml":   "ray: {python: .venv}\njob: {workingDir: src, pyModules: [lib, s3://b/x.zip, /abs]}\nsecrets: [{name: A, file: a.txt}]\n",
		"repo/bin/rayctl":    "",
		"repo/.git/HEAD":     "",
		"user/rayctl/x":      "",
		userConfig:           "profiles: {p: {kuberay: {kubeconfig: kube.yaml}}}\n",
		"repo/src/train.py":  "",
		"elsewhere/train.py": "",
	})
	l := f.must("repo/bin", "--profile", "p", "--launcher", "local")
	at := func(p string) string { return filepath.Join(f.dir, p) }
	got := []string{l.Spec.Ray.Python, l.Spec.Job.WorkingDir, l.Spec.Job.PyModules[0], l.Spec.Job.PyModules[1], l.Spec.Job.PyModules[2], l.Spec.Secrets[0].File, kuberayspec.Of(l.Spec).Kubeconfig}
	want := []string{at("repo/.venv"), at("repo/src"), at("repo/lib"), "s3://b/x.zip", "/abs", at("repo/a.txt"), at("user/rayctl/kube.yaml")}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	// A flag's path is relative to the current directory.
	if l := f.must("repo/bin", "--working-dir", "../../elsewhere", "--python", "./venv"); l.Spec.Job.WorkingDir != at("elsewhere") || l.Spec.Ray.Python != at("repo/bin/venv") {
		t.Errorf("%q %q", l.Spec.Job.WorkingDir, l.Spec.Ray.Python)
	}
}

// TestImageWithoutContainers: --image is refused where it has no effect; a file's is noted.
func TestImageWithoutContainers(t *testing.T) {
	files := map[string]string{
		"plain.yaml":      "image: a/b:1\nprofiles: {k8s: {launcher: kuberay}}\n",
		"slurm.yaml":      "slurm: {}\n",
		"containers.yaml": "slurm: {containerRuntime: pyxis}\n",
	}
	newFixture(t, files).fails("--image: the local launcher runs no containers here", "", "--image", "a/b:1")
	newFixture(t, files).fails("--image: the slurm launcher runs no containers here", "", "-f", "slurm.yaml", "--image", "a/b:1")
	for args, warnings := range map[string]int{
		"-f plain.yaml": 1, "-f plain.yaml --profile k8s": 0, "-f containers.yaml --image a/b:1": 0, "--launcher kuberay --image a/b:1": 0,
	} {
		if l := newFixture(t, files).must("", strings.Fields(args)...); len(l.Warnings) != warnings {
			t.Errorf("%s: warnings %q", args, l.Warnings)
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	f := newFixture(t, nil)
	t.Setenv("RAYCTL_ATTEMPT", "7")
	t.Setenv("RAYCTL_OUTPUT_DIR", "/x")
	t.Setenv("RAYCTL_TEST_CACHE", "/x")
	t.Setenv("RAYCTL_ZZZ", "1")
	l := f.must("")
	if len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "RAYCTL_ZZZ") || l.Spec.Job.OutputDir != "" {
		t.Errorf("warnings %q, output %q", l.Warnings, l.Spec.Job.OutputDir)
	}
	t.Setenv("RAYCTL_SLURM_PARTITON", "gpu")
	f.fails("RAYCTL_SLURM_PARTITON: this variable is unknown: did you mean RAYCTL_SLURM_PARTITION?", "")
}

func TestEntrypoint(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "job: {entrypoint: python a.py}\n"})
	l, err := Load(Options{Flags: f.flags, Dir: f.dir, Entrypoint: "python 'b c.py'"})
	if err != nil || l.Spec.Job.Entrypoint != "python 'b c.py'" || l.Origins.of("job.entrypoint") != "the command line" {
		t.Errorf("%v, %v", l, err)
	}
}

func TestForeignFlagsOfTheSameName(t *testing.T) {
	f := newFixture(t, nil)
	flags := pflag.NewFlagSet("extend", pflag.ContinueOnError)
	flags.Int("max", 3, "")
	AddSelection(flags)
	if err := flags.Parse([]string{"--max", "5"}); err != nil {
		t.Fatal(err)
	}
	l, err := Load(Options{Flags: flags, Dir: f.dir})
	if err != nil || l.Spec.Lifetime.Max != 0 {
		t.Errorf("%v, %v", l, err)
	}
}

// TestOriginsOfLists: each item of a list has the place that it comes from.
func TestOriginsOfLists(t *testing.T) {
	f := newFixture(t, map[string]string{"rayctl.yaml": "job:\n  pip: reqs.txt\n  excludes: [a]\nsecrets: [A]\n"})
	l := f.must("", "--pip", "jax", "--excludes", "b", "--secret", "B", "--secret", "A", "--py-modules", "m")
	for path, want := range map[string]string{
		"job.pip[0]": "rayctl.yaml:2", "job.pip[1]": "--pip", "job.excludes[0]": "rayctl.yaml:3", "job.excludes[1]": "--excludes",
		"secrets.A.name": "rayctl.yaml:4", "secrets.B.name": "--secret", "job.pyModules[0]": "--py-modules",
	} {
		if got := l.Origins.of(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if pip := l.Spec.Job.Pip; pip.File != filepath.Join(f.dir, "reqs.txt") || len(pip.Packages) != 1 || pip.Dir != f.dir || len(l.Spec.Secrets) != 2 {
		t.Errorf("%+v, %+v", pip, l.Spec.Secrets)
	}
	if _, err := f.load("", "--pip", "-r x.txt"); err == nil || !strings.HasPrefix(err.Error(), "--pip: job.pip[2]: -r x.txt names a file") {
		t.Errorf("%v", err)
	}
}
