package sizes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
)

func TestCheck(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "train.sh"), []byte("# trainer.nnodes=99\npython -m verl.trainer.main_ppo \\\n  trainer.nnodes=8 \\\n  trainer.n_gpus_per_node=8\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"config.yaml": "# node_num: 1\ncluster: {node_num: 9, gpu_per_node: 8}\n", "eight.yml": "actor_train: {device_mapping: 'list(range(0, 40))'}\n",
		"fits.yaml":  "cluster: {node_num: '${oc.env:RAYCTL_GPU_NODES}', gpu_per_node: 8}\nactor_train: {device_mapping: 'list(range(0,32))'}\n",
		"trinity.sh": "exec python run.py config.yaml\n", "roll.sh": "config=eight.yml\npython x.py --config_name \"${config%.yml}\"\n",
		"unsound.yaml": "cluster: [",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]string{
		"python -m verl.trainer.main_ppo trainer.nnodes=4 trainer.n_gpus_per_node=8": "",
		"python -m verl.trainer.main_ppo trainer.nnodes=2":                           "",
		"python -m verl.trainer.main_ppo trainer.nnodes=$RAYCTL_GPU_NODES":           "",
		"python x.py mytrainer.nnodes=9 trainer.nnodes_max=9 trainer.nnodes=9x":      "",
		"python -m verl.trainer.main_ppo trainer.nnodes=8":                           "job.entrypoint has trainer.nnodes 8, and the cluster file has at most 4 nodes with GPUs",
		"python -m verl.trainer.main_ppo 'trainer.n_gpus_per_node=16'":               "job.entrypoint has trainer.n_gpus_per_node 16, and the cluster file has at most 8 GPUs on a node",
		"python train.py --actor.num_nodes 5":                                        "job.entrypoint has --actor.num_nodes 5, and the cluster file has at most 4 nodes with GPUs",
		"python train.py --actor-num-gpus-per-node=9":                                "job.entrypoint has --actor-num-gpus-per-node 9, and the cluster file has at most 8 GPUs on a node",
		"bash train.sh":                      "train.sh has trainer.nnodes 8, and the cluster file has at most 4 nodes with GPUs",
		"bash ../train.sh":                   "",
		"bash missing.sh":                    "",
		"bash trinity.sh":                    "config.yaml has cluster.node_num 9, and the cluster file has at most 4 nodes with GPUs",
		"bash roll.sh":                       "eight.yml has actor_train.device_mapping 40, and the cluster file has at most 32 GPUs",
		"python run.py --config=config.yaml": "config.yaml has cluster.node_num 9, and the cluster file has at most 4 nodes with GPUs",
		"python run.py fits.yaml unsound.yaml missing.yaml ../config.yaml config.yaml2": "",
		"python areal.py cluster.n_nodes=5":                                             "job.entrypoint has cluster.n_nodes 5, and the cluster file has at most 4 nodes with GPUs",
	} {
		four := 4
		s := &spec.ClusterSpec{Job: spec.Job{Entrypoint: command, WorkingDir: dir}, Workers: []spec.WorkerGroup{
			{Name: "gpu", Replicas: &four, MinReplicas: &four, MaxReplicas: &four, NodeResources: spec.NodeResources{GPUs: 8}},
		}}
		got := ""
		if d := Check(s); d != nil {
			got = d.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestOptions: each option that a recipe sets is one that its framework has.
func TestOptions(t *testing.T) {
	for _, o := range options {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "test", "recipes", "options", o.framework+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(strings.Split(string(data), "\n"), o.name) {
			t.Errorf("%s has no %s", o.framework, o.name)
		}
	}
}

// TestUnequalGroups: a template whose driver ends without RAYCTL_GPUS_PER_NODE is refused where the groups differ. One that does not is compared with what is known.
func TestUnequalGroups(t *testing.T) {
	dir := t.TempDir()
	for name, first := range map[string]string{"wants.sh": `: "${RAYCTL_GPUS_PER_NODE:?}"`, "own.sh": "true"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(first+"\ntrain_nodes=5\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	two := 2
	group := func(name string, gpus int) spec.WorkerGroup {
		return spec.WorkerGroup{Name: name, Replicas: &two, NodeResources: spec.NodeResources{GPUs: gpus}}
	}
	for script, want := range map[string]string{
		"wants.sh": "workers.a.gpus is 8 and workers.b.gpus is 4, but wants.sh wants RAYCTL_GPUS_PER_NODE, which is only set where all nodes with GPUs have the same number",
		"own.sh":   "train_nodes + 1 = 6 is more than (workers.a.replicas + workers.b.replicas) = 4, but AReaL generates and trains on different GPUs",
	} {
		s := &spec.ClusterSpec{Job: spec.Job{Entrypoint: "bash " + script, WorkingDir: dir, Metadata: map[string]string{"template": "areal"}}, Workers: []spec.WorkerGroup{group("a", 8), group("b", 4), {Name: "c"}}}
		if m := CheckTemplate(s); m == nil || !strings.HasPrefix(m.Msg, want) {
			t.Errorf("%s: %v, want %q", script, m, want)
		}
	}
	for text, want := range map[string]string{
		"--workers 5 # 4 are there": "--workers = 5 is more than workers.w.replicas * workers.w.cpus = 4, but each process of the training takes a CPU: give --workers=4 in job.entrypoint",
		"--workers 4":               "", "--workers $N": "", "--steps 9": "",
	} {
		s := &spec.ClusterSpec{Job: spec.Job{Entrypoint: "python train.py " + text, Metadata: map[string]string{"template": "train"}}, Workers: []spec.WorkerGroup{{Name: "w", Replicas: &two, NodeResources: spec.NodeResources{CPUs: 2}}}}
		got := ""
		if m := CheckTemplate(s); m != nil {
			got = m.Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
		more := 9
		s.Workers[0].MaxReplicas = &more // Ray makes nodes for workers that wait
		if m := CheckTemplate(s); m != nil {
			t.Errorf("%s, elastic: %v", text, m)
		}
	}
	for _, name := range []string{"nosuch", "", "a\x1b[31m\n"} {
		s := &spec.ClusterSpec{Job: spec.Job{Entrypoint: "bash own.sh", WorkingDir: dir, Metadata: map[string]string{"template": name}}, Workers: []spec.WorkerGroup{group("a", 8)}}
		if m := CheckTemplate(s); m != nil {
			t.Errorf("template %q: %v", name, m)
		}
	}
}
