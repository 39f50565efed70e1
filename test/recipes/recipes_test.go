// Package recipes compares the templates for reinforcement learning with their frameworks, none of which is installed here: what a template's command would give to
// the framework is compared with the names in options/, which options.py reads from the framework's source. `make check-recipes` repeats that, and has the
// frameworks' own parsers read the commands where they have one that needs no GPU.
package recipes

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/templates/workloads"
)

// recipe is a template and how the test reads what it gives to its framework.
type recipe struct {
	name   string
	sizes  []string // what it must be given for 3 nodes with 4 GPUs each
	resume []string // with what it finds the checkpoints of an earlier attempt, in RAYCTL_OUTPUT_DIR
	typo   [2]string
}

var recipes = []recipe{
	{"verl", []string{"trainer.nnodes=3", "trainer.n_gpus_per_node=4"}, []string{"trainer.resume_mode=auto", "trainer.default_local_dir=/out/checkpoints"}, [2]string{"trainer.nnodes", "trainer.nnode"}},
	{"openrlhf", []string{"--actor.num_nodes 3", "--actor.num_gpus_per_node 4", "--ref.num_nodes 3", "--vllm.num_engines 6"},
		[]string{"--ckpt.load_enable", "--ckpt.path /out/checkpoints"}, [2]string{"--ckpt.load_enable", "--ckpt.load"}},
	{"nemo-rl", []string{"cluster.num_nodes=3", "cluster.gpus_per_node=4"}, []string{"checkpointing.checkpoint_dir=/out/checkpoints"}, [2]string{"checkpoint_must_save_by", "must_save_by"}},
	{"skyrl", []string{"trainer.placement.policy_num_nodes=3", "trainer.placement.policy_num_gpus_per_node=4", "generator.inference_engine.num_engines=6"},
		[]string{"trainer.resume_mode=latest", "trainer.ckpt_path=/out/checkpoints"}, [2]string{"policy_num_nodes", "policy_nodes"}},
	{"slime", []string{"--actor-num-nodes 3", "--actor-num-gpus-per-node 4"}, []string{"--load /out/checkpoints", "--save /out/checkpoints"}, [2]string{"--actor-num-nodes", "--actor-nodes"}},
	{"miles", []string{"--actor-num-nodes 3", "--actor-num-gpus-per-node 4"}, []string{"--load /out/checkpoints", "--save /out/checkpoints"}, [2]string{"--save-interval", "--save-every"}},
}

// TestRecipes: what each template gives to its framework are options of this framework, with the sizes of the cluster file, and one wrong name is found.
func TestRecipes(t *testing.T) {
	for _, r := range recipes {
		for _, launcher := range []string{"slurm", "kuberay"} {
			t.Run(r.name+"/"+launcher, func(t *testing.T) {
				known := options(t, r.name)
				dir := files(t, r.name, launcher)
				args := driver(t, dir, nil)
				if wrong := unknown(args, known); len(wrong) > 0 {
					t.Errorf("%s does not have %s", r.name, strings.Join(wrong, ", "))
				}
				keep(t, r.name+"-"+launcher, args)
				line := " " + strings.Join(args, " ") + " "
				for _, want := range append(r.sizes, r.resume...) {
					if !strings.Contains(line, " "+want+" ") {
						t.Errorf("%s is not in%s", want, line)
					}
				}
				replace(t, filepath.Join(dir, "train.sh"), r.typo)
				if wrong := unknown(driver(t, dir, nil), known); len(wrong) != 1 {
					t.Errorf("with %s for %s, wrong are %q", r.typo[1], r.typo[0], wrong)
				}
			})
		}
	}
}

// TestRecipesUneven: a driver whose nodes have different numbers of GPUs has no size to give, and says so.
func TestRecipesUneven(t *testing.T) {
	for _, r := range recipes {
		dir := files(t, r.name, "slurm")
		command := exec.Command("bash", "train.sh")
		command.Dir, command.Env = dir, environment(dir, map[string]string{"RAYCTL_GPUS_PER_NODE": ""})
		if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), "different numbers of gpus") {
			t.Errorf("%s: %v, %s", r.name, err, out)
		}
	}
}

// TestDeadline: NeMo-RL is told the end as the time since its start, five minutes early; without an end it has none.
func TestDeadline(t *testing.T) {
	dir := files(t, "nemo-rl", "slurm")
	const option = "checkpointing.checkpoint_must_save_by="
	for ends, want := range map[string]string{"": `^null$`, "1": `^'00:00:00:00'$`, "4102444800": `^'\d{4,}:\d\d:\d\d:\d\d'$`} {
		args := driver(t, dir, map[string]string{"RAYCTL_ENDS_AT": ends})
		i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, option) })
		if i < 0 || !regexp.MustCompile(want).MatchString(strings.TrimPrefix(args[i], option)) {
			t.Errorf("ends at %q: %q, want %s", ends, args, want)
		}
	}
}

// TestExternalRay: the launch scripts of slime and Miles leave Ray alone.
func TestExternalRay(t *testing.T) {
	for name, variable := range map[string]string{"slime": "SLIME_SCRIPT_EXTERNAL_RAY", "miles": "MILES_SCRIPT_EXTERNAL_RAY"} {
		data, err := os.ReadFile(filepath.Join(files(t, name, "kuberay"), "rayctl.yaml"))
		if err != nil || !bytes.Contains(data, []byte(variable+`: "1"`)) {
			t.Errorf("%s: no %s: %v", name, variable, err)
		}
	}
}

// files writes the template with tokens on; it returns the directory.
func files(t *testing.T, name, launcher string) string {
	t.Helper()
	all, err := workloads.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(w *workloads.Template) bool { return w.Name == name })
	if i < 0 {
		t.Fatalf("there is no template %s", name)
	}
	values, err := all[i].Values([]string{"launcher=" + launcher, "wandb=true", "token=true"}, "my-run")
	if err != nil {
		t.Fatal(err)
	}
	written, err := all[i].Files(values)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range written {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// stand is read by bash before train.sh: the directories and files of the image are not here, and python3 and uv write down their arguments.
const stand = `cd() { :; }
source() { :; }
`

const program = `#!/bin/bash
if [ "$1" = -c ]; then echo 10.0.0.1; else printf '%s\0' "$@" >"$ARGUMENTS"; fi
`

// driver is what train.sh gives to the framework's program.
func driver(t *testing.T, dir string, env map[string]string) []string {
	t.Helper()
	command := exec.Command("bash", "train.sh")
	command.Dir, command.Env = dir, environment(dir, env)
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(bin, "python3"): program, filepath.Join(bin, "uv"): program, filepath.Join(dir, "stand.sh"): stand} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("train.sh: %v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "arguments"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}

// keep writes down a driver's own arguments for check.sh, which has the framework read them.
func keep(t *testing.T, name string, args []string) {
	t.Helper()
	dir := os.Getenv("RECIPES_ARGUMENTS")
	if dir == "" {
		return
	}
	first := slices.IndexFunc(args, func(a string) bool { return isOption.MatchString(a) && !slices.Contains(launching, a) })
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(args[first:], "\x00")), 0o600); err != nil {
		t.Fatal(err)
	}
}

func environment(dir string, more map[string]string) []string {
	env := []string{
		"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "BASH_ENV=" + filepath.Join(dir, "stand.sh"), "ARGUMENTS=" + filepath.Join(dir, "arguments"),
		"RAYCTL_GPU_NODES=3", "RAYCTL_GPUS_PER_NODE=4", "RAYCTL_OUTPUT_DIR=/out",
	}
	for name, value := range more {
		env = append(env, name+"="+value)
	}
	return env
}

// isOption finds an option of argparse, or one of hydra and its like.
var isOption = regexp.MustCompile(`^(--[A-Za-z][A-Za-z0-9._-]*)|^[+~]*([A-Za-z_][A-Za-z0-9_.]*)=`)

// launching are the options of `uv run` and of the framework's program that come before its own.
var launching = []string{"--isolated", "--extra", "--config"}

// unknown are the options among arguments that the framework does not have.
func unknown(args []string, known map[string]bool) (wrong []string) {
	for _, a := range args {
		m := isOption.FindStringSubmatch(a)
		if m == nil {
			continue
		}
		if name := m[1] + m[2]; !known[name] && !slices.Contains(launching, name) {
			wrong = append(wrong, name)
		}
	}
	return wrong
}

func options(t *testing.T, name string) map[string]bool {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("options", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			known[line] = true
		}
	}
	return known
}

func replace(t *testing.T, path string, words [2]string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil || bytes.Count(data, []byte(words[0])) == 0 {
		t.Fatal(fmt.Errorf("%s is not in %s: %w", words[0], path, err))
	}
	text := strings.Replace(string(data), words[0]+"=", words[1]+"=", 1)
	if text == string(data) {
		text = strings.Replace(text, words[0]+" ", words[1]+" ", 1)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
