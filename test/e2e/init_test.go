package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// TestInit writes files that run, and overwrites none.
func TestInit(t *testing.T) {
	u := newUser(t)
	for _, template := range []string{"basic", "grpo", "train", "serve"} {
		u.want(0, "init", template, "--dir", template)
		u.want(64, "init", template, "--dir", template)
		u.env = []string{"RAYCTL_RAY_PYTHON="}
		command := []string{"render", "-f", template + "/rayctl.yaml"}
		if template == "serve" {
			command = append(command, "--up")
			contains(t, "the template, as Serve asks for no password,", u.read("serve/serve.yaml"), "http_options:\n  host: 127.0.0.1 ")
		}
		contains(t, "render", u.want(0, command...).out, "orders.json")
		u.env = nil
	}
	u.write("hand/start.sh", "#!/bin/bash\nset -e\nexport SEED=7 WHO='you there'\nport=6379\nray start --head --port=$port --num-cpus=1\nsleep 5\nSTEPS=3\npython hand/main.py --steps $STEPS\nray stop\n")
	u.write("hand/main.py", "import os, sys, ray\nray.init()\nprint(sys.argv[1:], os.environ['SEED'], ray.get(ray.remote(lambda: os.environ['WHO']).remote()))\n")
	u.want(0, "init", "--from", "hand/start.sh", "--dir", "hand")
	contains(t, "the run of a script that started Ray by hand", u.want(0, "run", "-f", "hand/rayctl.yaml").out, "['--steps', '3'] 7 you there")
	u.dir += "/grpo"
	contains(t, "the run", u.want(0, "run").out, "step 39 reward")
}

// TestInitAsks: on a terminal init asks a person for the parameters of a template, again for sizes that do not fit together, and which of a team's templates it is.
// Ctrl-C at a question leaves no file.
func TestInitAsks(t *testing.T) {
	u := newUser(t)
	u.env = []string{"CI="}
	seen := map[string]int{}
	s := u.start(true, "init", "verl", "--launcher", "slurm", "--dir", "asked")
	for _, asked := range [][2]string{
		{"nodes: nodes with GPUs [4] ", "2"}, {"gpus: GPUs of a node [8] ", ""}, {"batch: prompts of a step [512] ", "500"}, {"samples: answers to a prompt [8] ", ""},
		{"minibatch: prompts of an update [128] ", "0"}, {"minibatch cannot be \"0\": give a whole number from 1 to 1000000: ", "128"}, {"tp: tensor parallelism of the rollout engine [2] ", "4"},
		{"a directory of the nodes that has one [Qwen/Qwen3-8B] ", "me/mine"}, {"GSM8K is loaded [] ", ""}, {"the data_source of each row [] ", "own.py"}, {"are below it [/shared] ", "/data"}, {"image: image with verl and Ray [verlai/verl:vllm024.dev2] ", ""},
		{"models behind a login [false] ", "yes"}, {"WANDB_API_KEY of your environment [false] ", ""}, {"by default that of the folder [asked] ", ""},
		{"nodes: nodes with GPUs [2] ", ""}, // because 128 does not divide 500
		{"gpus: GPUs of a node [8] ", ""}, {"batch: prompts of a step [500] ", "512"}, {"samples: answers to a prompt [8] ", ""}, {"minibatch: prompts of an update [128] ", ""}, {"engine [4] ", ""},
	} {
		seen[asked[0]]++
		s.until(asked[0], seen[asked[0]])
		s.key(asked[1] + "\n")
	}
	if code := s.code(); code != 0 {
		t.Fatalf("code %d: %s", code, s)
	}
	contains(t, "the answers are in the files:", u.read("asked/rayctl.yaml")+u.read("asked/train.sh"), "replicas: 2, gpus: 8", "- HF_TOKEN", "data.train_batch_size=512", "tensor_model_parallel_size=4", "/data/models/me/mine", "own.py")

	for _, name := range []string{"a", "b"} {
		u.write("teams/"+name+"/template.yaml", "version: 1\ntitle: "+name+"\nfor: us\n")
		u.write("teams/"+name+"/"+name+".txt", name)
	}
	s = u.start(true, "init", "./teams", "--dir", "theirs")
	s.until("Which template? [a] ", 1)
	s.key("b\n")
	if code := s.code(); code != 0 || u.read("theirs/b.txt") != "b" {
		t.Errorf("code %d: %s", code, s)
	}
	s = u.start(true, "init", "grpo", "--dir", "interrupted")
	s.until("launcher: ", 1)
	s.key("\x03")
	if code := s.code(); code != 130 {
		t.Errorf("code %d: %s", code, s)
	}
	if _, err := os.Stat(filepath.Join(u.dir, "interrupted")); err == nil {
		t.Error("Ctrl-C has left files")
	}
	contains(t, "without a terminal,", u.want(64, "init", "./teams").err, "rayctl init ./teams/a", "rayctl init ./teams/b")
}
