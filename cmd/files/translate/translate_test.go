package translate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	_ "github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/spec"
	_ "github.com/rayctl/rayctl/local/localspec"
	_ "github.com/rayctl/rayctl/slurm/slurmspec"
)

// secrets are values of the files in testdata that must be nowhere in what is made of them.
var secrets = []string{"0123456789abcdef", "hf_abcdef", "sesame", "hunter2", "me:pw"}

// TestFiles: each file of testdata becomes the cluster file NAME.want, which rayctl accepts as a launch does. The files are our own text, with the structure of
// those in the documents of Ray, Slurm, verl, SkyRL, NeMo-RL and KubeRay. RAYCTL_UPDATE_GOLDEN=1 writes the cluster files.
func TestFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Ext(file) == ".want" {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Of(Source{Name: filepath.Base(file), Command: "rayctl init --from " + filepath.Base(file), Data: data})
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("RAYCTL_UPDATE_GOLDEN") != "" {
				if err := os.WriteFile(file+".want", r.Content, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file + ".want")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(r.Content)); diff != "" {
				t.Errorf("%s", diff)
			}
			s := accepted(t, r.Content)
			if r.Job != (s.Job.Entrypoint != "") {
				t.Errorf("Job %v, entrypoint %q", r.Job, s.Job.Entrypoint)
			}
			for _, secret := range secrets {
				if bytes.Contains(r.Content, []byte(secret)) || strings.Contains(strings.Join(append(r.Left, r.Check...), "\n"), secret) {
					t.Errorf("the secret %s is copied", secret)
				}
			}
		})
	}
}

// accepted is a cluster file as a launch reads it.
func accepted(t *testing.T, content []byte) *spec.ClusterSpec {
	t.Helper()
	s, err := spec.Decode(bytes.NewReader(content), "rayctl.yaml")
	if err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	if s.Launcher == "" {
		for _, name := range spec.ChosenBySection() {
			if bytes.Contains(content, []byte("\n"+name+":")) {
				s.Launcher = name
			}
		}
	}
	if s.Launcher == "" {
		s.Launcher = spec.Fallback()
	}
	spec.Default(s)
	if err := spec.Validate(s); err != nil {
		t.Errorf("%v\n%s", err, content)
	}
	return s
}

// made is what a script becomes, without its first line.
func made(t *testing.T, script string) string {
	t.Helper()
	r, err := Of(Source{Name: "x.sbatch", Data: []byte(script)})
	if err != nil {
		t.Fatal(err)
	}
	accepted(t, r.Content)
	return string(r.Content)
}

// TestOptions: single options and commands of batch scripts.
func TestOptions(t *testing.T) {
	const ray = "\nray start --head\npython a.py\n"
	for script, want := range map[string]string{
		"#SBATCH -N2 -c8":                                     "replicas: 2 # the head runs on the first worker\n    cpus: 8\n",
		"#SBATCH -N 2-4":                                      "workers[].replicas is the smaller number; minReplicas and maxReplicas make a group elastic",
		"#SBATCH -n 6 --ntasks-per-node=2 -c 3":               "replicas: 3 # the head runs on the first worker\n    cpus: 6\n",
		"#SBATCH -n 3":                                        "each task became a worker",
		"#SBATCH -N 3 -G 12":                                  "gpus: 4\n",
		"#SBATCH -N 3 -G 4":                                   "--gpus=4 for 3 nodes: set workers[].gpus",
		"#SBATCH --gpus-per-task=a100:2":                      "gpus: 2\n    gpuType: a100\n",
		"#SBATCH --gres=gpu":                                  "gpus: 1\n",
		"#SBATCH --gres=gpu:a100:1,gpu:v100:1":                "set workers[].gpus and workers[].gpuType",
		"#SBATCH --mem=8000":                                  "memory: 8000Mi\n",
		"#SBATCH --mem-per-gpu=4G --gres=gpu:2":               "memory: 8Gi\n",
		"#SBATCH --mem=lots":                                  "--mem=lots: not a size",
		"#SBATCH --mem=0":                                     "--mem=0 is all memory of a node",
		"#SBATCH --time 90":                                   "max: 1h30m #",
		"#SBATCH -t 2-0":                                      "max: 2d #",
		"#SBATCH -t 10:30":                                    "max: 10m30s #",
		"#SBATCH -t UNLIMITED":                                "max: unlimited\n",
		"#SBATCH -t soon":                                     "--time=soon: not a time limit: set lifetime.max",
		"#SBATCH -C \"a100&ib\"":                              "constraint: a100&ib\n",
		"#SBATCH -p gpu # the fast ones":                      "partition: gpu\n",
		"#SBATCH -L fluent:2":                                 "- --licenses=fluent:2\n",
		"#SBATCH --array=1-4":                                 "start `rayctl run` once for each index",
		"#SBATCH -D /shared/x":                                "cwd: /shared/x\n",
		"#SBATCH -N 1\n#SBATCH hetjob\n#SBATCH -N 9":          "line 2: the further components of the heterogeneous job: add a group to workers for each",
		"#SBATCH --export=ALL,HF_TOKEN=x":                     "line 1: --export: slurm.keepEnv names variables of your login environment",
		"##SBATCH -N 7\n#SBATCH -c 2":                         "replicas: 1 #",
		"#SBATCH -c 2\r\n# x\r":                               "cpus: 2\n",
		"#SBATCH -N 1\necho a\n#SBATCH -N 7":                  "line 3: #SBATCH after the first command, where sbatch does not read it",
		"#SBATCH -N 1\nexport A=1 B='x y' C=$D":               "A: \"1\"\n  B: x y\n",
		"#SBATCH -N 1\nexport C=$D":                           "export C=$D: only a run of the script knows the value",
		"#SBATCH -N 1\nexport C=$HOME/x":                      "setup: export C=$HOME/x #",
		"#SBATCH -N 1\nexport C=$(date)":                      "only a run of the script knows the value",
		"#SBATCH -N 1\nexport HF_TOKEN=hf_x":                  "secrets:\n  - HF_TOKEN\n",
		"#SBATCH -N 1\nexport U=http://a:b@h":                 "secrets:\n  - U\n",
		"#SBATCH -N 1\nexport E=3.10 F=yes G=~/x":             "E: \"3.10\"\n  F: \"yes\"\n",
		"#SBATCH -N 1\nV=/shared/v\n. $V/bin/activate":        "python: /shared/v #",
		"#SBATCH -N 1\nml cuda":                               "modules:\n    - cuda\n",
		"#SBATCH -N 1\nmodule purge":                          "clean environment, to which slurm.modules adds",
		"#SBATCH -N 1\npip install -r r.txt":                  "job.pip or job.uv install packages for the job",
		"#SBATCH -N 1\nmkdir -p out":                          "line 2: mkdir -p out: rayctl does not know whether the job needs it",
		"#SBATCH -N 1\nfor f in *; do cp $f /x; done":         "rayctl does not take loops, conditions and pipelines apart",
		"#SBATCH -N 1\ncurl -H 'Token: abc' x":                "line 2: a command that may have a secret in it: ",
		"#SBATCH -N 1\nray start --head --system-config='{}'": "ray start --system-config: rayctl's file has no key for it",
		"#SBATCH -N 1\nsrun --pty":                            "line 2: srun --pty: it names no command",
		"#SBATCH -N 1\n$RUN x":                                "line 2: $RUN x: rayctl does not know whether the job needs it",
		"":                                                    "where the cluster runs: without a slurm: or kuberay: section it runs on this machine",
	} {
		if got := made(t, script+ray); !strings.Contains(got, want) {
			t.Errorf("%s: there is no %q in\n%s", script, want, got)
		}
	}
	for script, want := range map[string]string{
		"ray job submit -- python a.py":                          "entrypoint: python a.py\n",
		"ray job submit python a.py --x":                         "entrypoint: python a.py --x\n",
		"ray job submit --entrypoint-num-cpus=2 -- a":            "entrypointCpus: 2\n",
		"ray job submit --runtime-env env.yaml -- a":             "copy what is in the file to job.runtimeEnv",
		"ray job submit --runtime-env-json '[1]' -- a":           "--runtime-env-json: not a JSON object",
		"ray job submit --metadata-json '{\"a\": \"b\"}' -- a":   "metadata:\n    a: b\n",
		"ray job submit --address http://h:8265 -- a":            "--address=http://h:8265: a run has a cluster of its own",
		"ray job submit --shiny 1 -- a":                          "--shiny: rayctl does not know this option",
		"ray start --head && (python a.py)":                      "set job.entrypoint, or give it as in",
		"ray start --head --num-cpus=4\npython a.py":             "ray start --num-cpus=4: set it at head or workers",
		"ray start --head\npython $1":                            "the job uses arguments of the script ($1)",
		"ray start --head\npython a.py | tee log":                "the exit code of a pipeline is that of its last command",
		"ray start --head\npython a.py --api-key=x":              "the job's command may have a secret in it",
		"ray start --head\npython a.py\npython b.py &\nwait":     "line 2: python a.py: the command in line 3 is the job",
		"srun ray start --head\nX=1\npython a.py $X \"$X\" '$X'": "entrypoint: python a.py 1 \"1\" '$X'\n",
	} {
		if got := made(t, script); !strings.Contains(got, want) {
			t.Errorf("%s: there is no %q in\n%s", script, want, got)
		}
	}
}

// TestRefused: what is no script, no manifest, and what has no Ray.
func TestRefused(t *testing.T) {
	rayJob := "apiVersion: ray.io/v1\nkind: RayJob\nmetadata: {name: j}\nspec: {}\n"
	for data, want := range map[string]string{
		"":                            "x: is empty: give a batch script, a RayJob, a RayCluster, or a file with a `ray job submit` line",
		"\x7fELF\x00":                 "x: is not a text file in UTF-8: give a batch script",
		strings.Repeat("a", 10<<20):   "x: is larger than 4 MiB, which no script or manifest is: give a batch script",
		strings.Repeat("a\n", 40<<10): "x: is no manifest, and larger than 64 KiB",
		"#!/bin/bash\n#SBATCH -N 2\nsrun hostname\n": "x: does not start Ray: it has no `ray start`, `ray symmetric-run` or `ray job submit`: `rayctl run -- COMMAND` runs a command on a Ray cluster",
		"# ray start --head\necho\n":                 "x: does not start Ray",
		"#!/usr/bin/env -S python3 -u\nimport ray\n": "x: is a script of python3, not of a shell: `rayctl run -- COMMAND` runs it",
		"ray start\n" + strings.Repeat("$(", 30<<10): "x:2: is no manifest, and no shell script either: ", // the parser calls itself for each
		"ray start --head\nif true\n":                "x:2: is no manifest, and no shell script either: ",
		"name: a\nworkers: [{name: w}]\n":            "x: is YAML, but neither a RayJob nor a RayCluster: a cluster file is used as it is, with -f",
		"apiVersion: v1\nkind: Pod\n":                "x: is a Kubernetes Pod, which rayctl does not launch",
		rayJob:                                       "rayClusterSpec",
	} {
		r, err := Of(Source{Name: "x", Data: []byte(data)})
		if err == nil || !strings.Contains(err.Error(), want) || spec.AsErrors(err) == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.80q: %v, %v, want %q", data, r, err, want)
		}
	}
}

// FuzzOf: whatever is given, there is one sentence, or a file that rayctl can read.
func FuzzOf(f *testing.F) {
	files, err := filepath.Glob("testdata/*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if data, err := os.ReadFile(file); err == nil && filepath.Ext(file) != ".want" {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Of(Source{Name: "x", Command: "rayctl init --from x", Data: data})
		if err != nil {
			if spec.AsErrors(err) == nil {
				t.Errorf("%v", err)
			}
			return
		}
		if _, err := spec.Decode(bytes.NewReader(r.Content), "rayctl.yaml"); err != nil && !strings.Contains(string(r.Content), "rayctl refuses this as it is") {
			t.Errorf("%v\n%s", err, r.Content)
		}
	})
}
