package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/templates/workloads"
)

// edit is one change of a file that `rayctl init` wrote, which breaks a rule of the template's framework, and what is said about it.
type edit struct{ file, old, new, says string }

// edits are the rules of each template, each broken after `init`.
var edits = map[string][]edit{
	"verl": {
		{"rayctl.yaml", "replicas: 4", "replicas: 3", "data.train_batch_size * actor_rollout_ref.rollout.n = 4096 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 24, but verl gives each GPU the same number of answers (_balance_batch of verl/trainer/ppo/ray_trainer.py): give actor_rollout_ref.rollout.n=6 or 9 in train.sh"},
		{"train.sh", "ppo_mini_batch_size=128", "ppo_mini_batch_size=100", "data.train_batch_size = 512 is not divisible by actor_rollout_ref.actor.ppo_mini_batch_size = 100, but a step consists of whole updates"},
		{"train.sh", "ppo_mini_batch_size=128", "ppo_mini_batch_size=2", "actor_rollout_ref.actor.ppo_mini_batch_size * actor_rollout_ref.rollout.n = 16 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 32, but verl divides an update among all GPUs"},
		{"train.sh", "tensor_model_parallel_size=2", "tensor_model_parallel_size=3", "workers.gpu.gpus = 8 is not divisible by actor_rollout_ref.rollout.tensor_model_parallel_size = 3, but an engine of the rollout is within one node: give actor_rollout_ref.rollout.tensor_model_parallel_size=2 or 4 in train.sh"},
		{"rayctl.yaml", "gpus: 8", "gpus: 0", "the number of nodes with GPUs is 0, but the template verl takes 1 to 4096: change the numbers, or leave job.metadata.template out"},
	},
	"nemo-rl": {
		{"rayctl.yaml", "replicas: 4", "replicas: 3", "batch * samples = 512 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 24, but NeMo-RL divides the answers of a step among all GPUs: give batch=63 or 66 in train.sh"},
		{"train.sh", "tensor_parallel_size=2", "tensor_parallel_size=16", "but an engine of the rollout is within one node"},
	},
	"openrlhf": {
		{"train.sh", "batch=128", "batch=129", "batch * samples = 1032 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 32, but OpenRLHF divides the answers of a step among all GPUs"},
		{"train.sh", "tp=2", "tp=16", "but an engine of the rollout is within one node"},
	},
	"slime": {
		{"rayctl.yaml", "replicas: 4", "replicas: 3", "batch * samples * --tensor-model-parallel-size = 1024 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 24, but Megatron divides a step among the data parallel ranks"},
		{"train.sh", "--rollout-num-gpus-per-engine 2", "--rollout-num-gpus-per-engine 5", "but an engine of the rollout is within one node: give --rollout-num-gpus-per-engine=4 or 8 in train.sh"},
		{"train.sh", "--tensor-model-parallel-size 2", "--tensor-model-parallel-size 16", "but tensor parallelism within a node keeps to NVLink"},
	},
	"miles": {
		{"train.sh", "batch=64", "batch=65", "batch * samples * --tensor-model-parallel-size = 1040 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 32, but Megatron divides a step among the data parallel ranks"},
		{"train.sh", "--rollout-num-gpus-per-engine 2", "--rollout-num-gpus-per-engine 5", "but an engine of the rollout is within one node"},
		{"train.sh", "--tensor-model-parallel-size 2", "--tensor-model-parallel-size 16", "but tensor parallelism within a node keeps to NVLink"},
	},
	"skyrl": {
		{"rayctl.yaml", "replicas: 4", "replicas: 3", "trainer.policy_mini_batch_size * generator.n_samples_per_prompt = 512 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 24, but SkyRL divides the answers of an update among all GPUs"},
		{"train.sh", "policy_mini_batch_size=64", "policy_mini_batch_size=60", "but SkyRL wants train_batch_size divisible by policy_mini_batch_size"},
		{"train.sh", "tp=2", "tp=5", "but an engine of the rollout is within one node: give tp=4 or 8 in train.sh"},
	},
	"areal": {
		{"train.sh", "train_nodes=1", "train_nodes=4", "train_nodes + 1 = 5 is more than workers.gpu.replicas = 4, but AReaL generates and trains on different GPUs"},
		{"train.sh", "tp=1", "tp=3", "but an engine of the rollout is within one node"},
		{"train.sh", "train_dataset.batch_size=256", "train_dataset.batch_size=250", "train_dataset.batch_size = 250 is not divisible by train_nodes * workers.gpu.gpus = 8, but AReaL gives each GPU that trains the same number of prompts"},
		{"rayctl.yaml", "cpus: 64", "cpus: 60", "8 * workers.gpu.gpus = 64 is more than workers.gpu.cpus = 60, but AReaL wants 8 CPUs for each GPU"},
		{"rayctl.yaml", `memory: "512Gi"`, `memory: "300Gi"`, "32 * workers.gpu.gpus + 64 = 320 is more than workers.gpu.memory = 300, but AReaL wants 32 GiB for each GPU"},
	},
	"trinity": {
		{"rayctl.yaml", "replicas: 4", "replicas: 1", "train_nodes + 1 = 2 is more than workers.gpu.replicas = 1, but Trinity explores and trains on different GPUs"},
		{"train.sh", "ROLLOUT_TP=2", "ROLLOUT_TP=3", "but an engine of the rollout is within one node: give ROLLOUT_TP=2 or 4 in train.sh"},
		{"rayctl.yaml", "gpus: 8", "gpus: 12", "buffer.batch_size * algorithm.repeat_times = 1024 is not divisible by train_nodes * workers.gpu.gpus = 12, but Trinity divides the answers of a step among the GPUs that train"},
	},
	"roll": {
		{"roll.yaml", "rollout_batch_size: 64", "rollout_batch_size: 72", "rollout_batch_size * ROLL_TRAIN_TP = 72 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 32, but ROLL divides the prompts of a step among the data parallel ranks"},
		{"roll.yaml", "tensor_parallel_size: 1,", "tensor_parallel_size: 3,", "but an engine of the rollout is within one node"},
		{"train.sh", "ROLL_TRAIN_TP=1", "ROLL_TRAIN_TP=3", "but tensor parallelism within a node keeps to NVLink"},
		{"train.sh", "minibatch=32", "minibatch=30", "but a step consists of whole updates"},
		{"train.sh", "minibatch=32", "minibatch=2", "minibatch * ROLL_SAMPLES * ROLL_TRAIN_TP = 16 is not divisible by workers.gpu.replicas * workers.gpu.gpus = 32, but the answers of an update are divided among the data parallel ranks"},
	},
	"data": {
		{"rayctl.yaml", "replicas: 2, cpus: 2", "replicas: 1, cpus: 2", "--replicas + 2 = 4 is more than workers.reader.replicas * workers.reader.cpus = 2, but each replica takes a CPU, and so do finding what is done, and reading and writing"},
		{"rayctl.yaml", "--replicas 2", "--replicas 3", "--replicas + 2 = 5 is more than workers.reader.replicas * workers.reader.cpus = 4"},
	},
	"llm": {
		{"serve.yaml", "tensor_parallel_size: 2", "tensor_parallel_size: 3", "workers.engine.gpus = 8 is not divisible by applications.args.llm_configs.engine_kwargs.tensor_parallel_size = 3, but the GPUs of a replica are on one node: " +
			"give applications.args.llm_configs.engine_kwargs.tensor_parallel_size=2 in serve.yaml"},
		{"serve.yaml", "min_replicas: 1", "min_replicas: 5", "applications.args.llm_configs.deployment_config.autoscaling_config.min_replicas = 5 is more than applications.args.llm_configs.deployment_config.autoscaling_config.max_replicas = 4, but Serve begins"},
		{"serve.yaml", "max_replicas: 4", "max_replicas: 5", "applications.args.llm_configs.engine_kwargs.tensor_parallel_size = 10 is more than workers.engine.replicas * workers.engine.gpus = 8, but each replica takes tensorParallel GPUs: give applications.args.llm_configs.deployment_config.autoscaling_config.max_replicas=4 in serve.yaml"},
		{"rayctl.yaml", "gpus: 8", "gpus: 4", "applications.args.llm_configs.engine_kwargs.tensor_parallel_size = 8 is more than workers.engine.replicas * workers.engine.gpus = 4"},
	},
	"train gpus=2": {
		{"rayctl.yaml", "gpus: 2", "gpus: 1", "--workers = 4 is more than workers.trainer.replicas * workers.trainer.gpus = 2, but each process of the training takes a GPU: give --workers=2 in job.entrypoint"},
		{"rayctl.yaml", "cpus: 1, gpus: 2}", "cpus: 1}", "--workers = 4 is more than workers.trainer.replicas * workers.trainer.cpus = 2, but each process of the training takes a CPU: give --workers=2 in job.entrypoint"},
	},
	"train": {
		{"rayctl.yaml", "replicas: 2", "replicas: 1", "--workers = 2 is more than workers.trainer.replicas * workers.trainer.cpus = 1, but each process of the training takes a CPU: give --workers=1 in job.entrypoint"},
	},
	"rllib cpus=2": {
		{"rayctl.yaml", "cpus: 2", "cpus: 1", "--runners = 4 is more than workers.runner.replicas * workers.runner.cpus = 2, but each actor that samples episodes takes a CPU: give --runners=2 in job.entrypoint"},
	},
	"torchrun gpus=2": {
		{"rayctl.yaml", "--nproc_per_node=2", "--nproc_per_node=3", "--nproc_per_node = 3 is more than workers.trainer.gpus = 2, but each process uses a GPU of its own, and NCCL refuses two on one: give --nproc_per_node=2 in job.entrypoint"},
	},
}

// TestSizesAfterInit: the rules of each template hold also after `rayctl init`, wherever a size was changed. Untouched files pass.
func TestSizesAfterInit(t *testing.T) {
	templates, err := workloads.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	broken := map[string]string{} // what was said for each template
	for name, all := range edits {
		t.Run(name, func(t *testing.T) {
			template, _, _ := strings.Cut(name, " ")
			dir := written(t, name, "kuberay")
			if code, text := said(t, "validate", "-f", dir+"/rayctl.yaml", "--image", "team/ray:2.60.0"); code != 0 {
				t.Errorf("untouched: code %d, %s", code, text)
			}
			for _, e := range all {
				change(t, dir, e.file, e.old, e.new)
				code, text := said(t, "validate", "-f", dir+"/rayctl.yaml")
				if code != runstate.CodeSpec || !strings.Contains(text, e.says) || strings.Count(text, "rayctl: ") != 1 {
					t.Errorf("%s instead of %s: code %d, %s", e.new, e.old, code, text)
				}
				broken[template] += text
				change(t, dir, e.file, e.new, e.old)
			}
		})
	}
	for _, one := range templates {
		for _, c := range one.Checks {
			if !strings.Contains(broken[one.Name], c.Says) {
				t.Errorf("%s: no edit breaks the rule %q", one.Name, c.Rule())
			}
		}
	}
}

// TestSizesBeforeAllocation: all that allocates or submits compares the sizes first, for each launcher. A file without the template's name, and another command, are left alone.
func TestSizesBeforeAllocation(t *testing.T) {
	for _, launcher := range []string{"slurm", "kuberay"} {
		for name := range edits {
			dir := written(t, name, launcher)
			file := dir + "/rayctl.yaml"
			untouched := []string{"validate", "-f", file}
			if launcher == "kuberay" {
				untouched = append(untouched, "--image", "team/ray:2.60.0")
			}
			if code, text := said(t, untouched...); code != 0 {
				t.Errorf("%s on %s, untouched: code %d, %s", name, launcher, code, text)
			}
			if name != "verl" {
				continue // they differ in nothing that follows
			}
			change(t, dir, "rayctl.yaml", "replicas: 4", "replicas: 1021")
			change(t, dir, "rayctl.yaml", "gpus: 8", "gpus: 7")
			for _, args := range [][]string{{"validate"}, {"validate", "--up"}, {"run", "--dry-run"}, {"up", "--dry-run"}, {"submit", "dev"}} {
				if code, text := said(t, append(args, "-f", file)...); code != runstate.CodeSpec || !strings.Contains(text, " is not divisible by ") {
					t.Errorf("%s on %s, %s: code %d, %s", name, launcher, args, code, text)
				}
			}
			if code, text := said(t, "validate", "-f", file, "--", "python", "other.py"); code != 0 {
				t.Errorf("%s on %s, another command: code %d, %s", name, launcher, code, text)
			}
			change(t, dir, "rayctl.yaml", "  metadata: {template: "+name+"}", "")
			if code, text := said(t, "validate", "-f", file); code != 0 {
				t.Errorf("%s on %s, without the template's name: code %d, %s", name, launcher, code, text)
			}
		}
	}
}

// written is a directory with the files of a template, after whose name there may be a parameter.
func written(t *testing.T, template, launcher string) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "my-run")
	args := []string{"init", "--launcher", launcher, "--dir", dir, "--set", "name=my-run"}
	for i, word := range strings.Fields(template) {
		args = append(args, []string{word, "--set=" + word}[min(i, 1)])
	}
	if code, text := said(t, args...); code != 0 {
		t.Fatalf("code %d: %s", code, text)
	}
	return dir
}

// said is what a rayctl with all launchers answers; its Slurm and its Kubernetes cannot be reached.
func said(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	apptest.OwnHome(t)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	a, _, stderr := apptest.New()
	a.Getenv, a.Launchers = os.Getenv, launchers()
	code = a.Execute(t.Context(), NewRoot, args)
	return code, stderr.String()
}

// change replaces a text that is there once.
func change(t *testing.T, dir, file, old, now string) {
	t.Helper()
	path := filepath.Join(dir, file)
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), old) != 1 {
		t.Fatalf("%s has %q %d times, %v", file, old, strings.Count(string(data), old), err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), old, now, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}
