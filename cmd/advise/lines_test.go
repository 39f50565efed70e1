package advise_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/rayctl/rayctl/cmd"
	"github.com/rayctl/rayctl/cmd/advise"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher/spec"
)

// rayctl runs a command line with the real commands, and returns what it writes to stdout.
func rayctl(t *testing.T, args ...string) string {
	t.Helper()
	a, out, said := apptest.New()
	if code := a.Execute(t.Context(), cmd.NewRoot, args); code != 0 {
		t.Fatalf("rayctl %q: code %d, %s", args, code, said)
	}
	return out.String()
}

// typed is what a shell gives to rayctl for a line: the directory and the words.
func typed(t *testing.T, line string) (dir string, words []string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", `rayctl() { printf '%s\0' "$PWD" "$@"; }; `+line).Output()
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	all := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	return all[0], all[1:]
}

// followed asks for advice, types its two lines, and returns the cluster file that is then launched, and the advice.
func followed(t *testing.T, args string) (*spec.ClusterSpec, advise.Advice) {
	t.Helper()
	var advice advise.Advice
	if err := json.Unmarshal([]byte(rayctl(t, strings.Fields("advise -o json "+args)...)), &advice); err != nil {
		t.Fatal(err)
	}
	_, words := typed(t, advice.Next)
	rayctl(t, words...)
	dir, words := typed(t, advice.Launch)
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddSpec(flags)
	if err := flags.Parse(words[1:]); err != nil {
		t.Fatalf("%s: %v", advice.Launch, err)
	}
	loaded, err := config.Load(config.Options{Flags: flags, Dir: dir})
	if err != nil {
		t.Fatalf("%s, %s: %v", advice.Next, advice.Launch, err)
	}
	if loaded.Spec.Launcher != advice.Launcher || (words[0] == "run") != (loaded.Spec.Job.Entrypoint != "") {
		t.Errorf("%s, %s: launcher %s, entrypoint %q", advice.Next, advice.Launch, loaded.Spec.Launcher, loaded.Spec.Job.Entrypoint)
	}
	return loaded.Spec, advice
}

// alone gives a test a home, no Kubernetes, and a directory for each of its files.
func alone(t *testing.T, files map[string]string) {
	t.Helper()
	apptest.OwnHome(t)
	t.Setenv("KUBECONFIG", "/nosuch")
	dir := filepath.Join(t.TempDir(), "project")
	apptest.WriteFiles(t, dir, files)
	if files == nil {
		apptest.WriteFiles(t, dir, map[string]string{"README": "none"})
	}
	t.Chdir(dir)
}

// has compares the groups and the keys of a cluster file with YAML that is a part of it.
func has(t *testing.T, s *spec.ClusterSpec, part string) {
	t.Helper()
	want, err := spec.Decode(strings.NewReader(part), "part")
	if err != nil {
		t.Fatal(err)
	}
	all, err := spec.Leaves(s)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, l := range all {
		values[l.Path] = l.Value
	}
	wanted, err := spec.Leaves(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range wanted {
		if values[l.Path] != l.Value {
			t.Errorf("%s is %q, want %q", l.Path, values[l.Path], l.Value)
		}
	}
}

// TestLinesOfAnswers: the init line and the launch line, typed as they are printed, make the cluster that was advised.
func TestLinesOfAnswers(t *testing.T) {
	for _, test := range []struct{ args, file string }{
		{"--nodes 16 --gpus 8 --tightly-coupled --bare-metal", "slurm: {exclusive: true}\nworkers: [{name: trainer, replicas: 16, gpus: 8}]"},
		{"--nodes 4 --gpus 32 --tightly-coupled --bare-metal", "workers: [{name: trainer, replicas: 4, gpus: 32}]"},
		{"--nodes 4 --tightly-coupled --python-native", "workers: [{name: trainer, replicas: 4, gpus: 8}]"},
		{"--nodes 3 --python-native --multi-tenant", "workers: [{name: worker, replicas: 3}]"},
		{"--nodes 2 --gpus 1 --long-lived-services", "workers: [{name: worker, replicas: 2, gpus: 1}]"},
		{"--nodes 8 --tightly-coupled --bare-metal --long-lived-services", "workers: [{name: trainer, replicas: 8, gpus: 8}]"},
		{"--edge", "workers: [{name: worker, replicas: 1}]"},
		{"--edge --long-lived-services", "workers: [{name: worker, replicas: 1}]"},
	} {
		t.Run(test.args, func(t *testing.T) {
			alone(t, nil)
			s, advice := followed(t, test.args)
			has(t, s, test.file)
			if len(s.Workers) != 1 {
				t.Errorf("%d groups", len(s.Workers))
			}
			if s.Sections["slurm"] != nil && strings.Contains(advice.ClusterFile, "exclusive") && s.Workers[0].CPUs != 0 {
				t.Errorf("whole nodes with %v CPUs", s.Workers[0].CPUs)
			}
			has(t, s, advice.ClusterFile)
		})
	}
}

// TestLinesOfFiles: sizes and launcher keys come from the cluster file; a head of its own is no worker.
func TestLinesOfFiles(t *testing.T) {
	for _, test := range []struct{ name, args, file, want string }{
		{"kuberay", "--multi-tenant", "kuberay: {queue: q}\nworkers: [{name: w, replicas: 2, gpus: 4}]\njob: {entrypoint: a}\n", "kuberay: {queue: q}\nworkers: [{name: trainer, replicas: 2, gpus: 4}]"},
		{"all keys", "--multi-tenant", "image: a/b:1\nhead: {cpus: 2}\nkuberay: {queue: q, tolerations: [{key: \"a b\", operator: Exists}], nodeSelector: {x.y/z: \"1\"}}\nworkers: [{name: w, replicas: 2, gpus: 4, cpus: 16, memory: 64Gi, shm: 8Gi}]\njob: {entrypoint: a}\n",
			"image: a/b:1\nhead: {cpus: 2}\nkuberay: {queue: q, tolerations: [{key: \"a b\", operator: Exists}], nodeSelector: {x.y/z: \"1\"}}\nworkers: [{name: trainer, replicas: 2, gpus: 4, cpus: 16, memory: 64Gi, shm: 8Gi}]"},
		{"slurm", "--bare-metal", "slurm: {partition: gpu, account: \"my team\", exclusive: true}\nworkers: [{name: w, replicas: 4, gpus: 2}]\njob: {entrypoint: a}\n",
			"slurm: {partition: gpu, account: \"my team\", exclusive: true}\nworkers: [{name: trainer, replicas: 4, gpus: 2}]"},
		{"another launcher", "--bare-metal", "kuberay: {queue: q}\nimage: a\nworkers: [{name: w, replicas: 2, gpus: 4, cpus: 8, shm: 1Gi}]\njob: {entrypoint: a}\n",
			"slurm: {exclusive: true}\nworkers: [{name: trainer, replicas: 2, gpus: 4, cpus: 8}]"},
		{"several groups", "--bare-metal", "slurm: {account: t}\nworkers: [{name: rollout, replicas: 3, gpus: 4}, {name: learner, replicas: 1, gpus: 8, memory: 1Gi}]\njob: {entrypoint: a}\n",
			"slurm: {account: t}\nworkers: [{name: rollout, replicas: 3, gpus: 4}, {name: learner, replicas: 1, gpus: 8, memory: 1Gi}]"},
		{"other sizes", "--nodes 5 --gpus 1", "kuberay: {queue: q}\nworkers: [{name: w, minReplicas: 2, maxReplicas: 3, gpus: 4}]\njob: {entrypoint: a}\n",
			"kuberay: {queue: q}\nworkers: [{name: trainer, replicas: 5, gpus: 1}]"},
		{"GPU types", "--multi-tenant", "kuberay: {}\ngpuTypes: {h100: {nodeSelector: {a: b}}}\nworkers: [{name: w, replicas: 2, gpus: 4, gpuType: h100}]\njob: {entrypoint: a}\n",
			"gpuTypes: {h100: {nodeSelector: {a: b}}}\nworkers: [{name: trainer, replicas: 2, gpus: 4, gpuType: h100}]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			alone(t, map[string]string{"rayctl.yaml": test.file})
			s, advice := followed(t, "-f rayctl.yaml "+test.args)
			has(t, s, test.want)
			if s.Name != "project" {
				t.Errorf("the name is %s", s.Name)
			}
			proposed, err := spec.Decode(strings.NewReader(advice.ClusterFile), "proposed")
			if err != nil || proposed.Workers[0].GPUs != s.Workers[0].GPUs || *proposed.Workers[0].Replicas != *s.Workers[0].Replicas {
				t.Errorf("%v, in the proposed keys\n%s", err, advice.ClusterFile)
			}
		})
	}
}

// TestProfileInLine: the launch line names the profile with which this machine reaches the launcher, and overrides a default one for another launcher.
func TestProfileInLine(t *testing.T) {
	alone(t, nil)
	apptest.WriteFiles(t, "config", map[string]string{"rayctl/config.yaml": "profiles: {default: {kuberay: {context: c}}, hpc: {slurm: {host: login, partition: gpu}}}"})
	dir, err := filepath.Abs("config")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_CONFIG_HOME", dir)
	s, advice := followed(t, "--nodes 2 --tightly-coupled --bare-metal")
	if !strings.HasPrefix(advice.Launch, "rayctl run --profile hpc --launcher slurm ") {
		t.Errorf("%s", advice.Launch)
	}
	has(t, s, "slurm: {host: login, partition: gpu, exclusive: true}")
}
