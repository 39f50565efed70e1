// Package recipes compares the templates for reinforcement learning with their frameworks, none of which is installed here: what a template's command would give to
// the framework is compared with the names in options/, which options.py reads from the framework's source. `make check-recipes` repeats that, and has the
// frameworks' own parsers read the commands where they have one that needs no GPU.
package recipes

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/templates/workloads"
)

// recipe is a template and how the test reads what it gives to its framework.
type recipe struct {
	name   string
	sizes  []string // what it must be given for 3 nodes with 4 GPUs each
	resume []string // with what it finds the checkpoints of an earlier attempt, in RAYCTL_OUTPUT_DIR
	typo   [2]string
	config string // the file of YAML that it gives to the framework; without one, it gives arguments
}

var recipes = []recipe{
	{"verl", []string{"trainer.nnodes=3", "trainer.n_gpus_per_node=4"}, []string{"trainer.resume_mode=auto", "trainer.default_local_dir=/out/checkpoints"}, [2]string{"trainer.nnodes", "trainer.nnode"}, ""},
	{"openrlhf", []string{"--actor.num_nodes 3", "--actor.num_gpus_per_node 4", "--ref.num_nodes 3", "--vllm.num_engines 6"},
		[]string{"--ckpt.load_enable", "--ckpt.path /out/checkpoints"}, [2]string{"--ckpt.load_enable", "--ckpt.load"}, ""},
	{"nemo-rl", []string{"cluster.num_nodes=3", "cluster.gpus_per_node=4"}, []string{"checkpointing.checkpoint_dir=/out/checkpoints"}, [2]string{"checkpoint_must_save_by", "must_save_by"}, ""},
	{"skyrl", []string{"trainer.placement.policy_num_nodes=3", "trainer.placement.policy_num_gpus_per_node=4", "generator.inference_engine.num_engines=6",
		"--project /shared/SkyRL"}, // Ray starts the actors with the same `uv run`, elsewhere
		[]string{"trainer.resume_mode=latest", "trainer.ckpt_path=/out/checkpoints"}, [2]string{"policy_num_nodes", "policy_nodes"}, ""},
	{"slime", []string{"--actor-num-nodes 3", "--actor-num-gpus-per-node 4"}, []string{"--load /out/checkpoints", "--save /out/checkpoints"}, [2]string{"--actor-num-nodes", "--actor-nodes"}, ""},
	{"miles", []string{"--actor-num-nodes 3", "--actor-num-gpus-per-node 4"}, []string{"--load /out/checkpoints", "--save /out/checkpoints"}, [2]string{"--save-interval", "--save-every"}, ""},
	{"areal", []string{"cluster.n_nodes=3", "cluster.n_gpus_per_node=4", "rollout.backend=sglang:d8t1", "actor.backend=fsdp:d4"},
		[]string{"recover.mode=auto", "cluster.fileroot=/out"}, [2]string{"cluster.n_gpus_per_node", "cluster.gpus_per_node"}, ""},
	{"trinity", []string{"cluster.node_num=3", "cluster.gpu_per_node=4", "explorer.rollout_model.engine_num=4"},
		[]string{"continue_from_checkpoint=true", "checkpoint_root_dir=/out/checkpoints"}, [2]string{"node_num", "nodes"}, "trinity.yaml"},
	{"roll", []string{"actor_train.device_mapping=list(range(0,12))", "actor_infer.device_mapping=list(range(0,12))", "actor_train.training_args.gradient_accumulation_steps=32"},
		[]string{"resume_from_checkpoint=false", "checkpoint_config.output_dir=/out/checkpoints"}, [2]string{"device_mapping", "devices_mapping"}, "roll.yaml"},
}

// TestRecipes: what each template gives to its framework are options of this framework, with the sizes of the cluster file, and one wrong name is found.
func TestRecipes(t *testing.T) {
	for _, r := range recipes {
		for _, launcher := range []string{"slurm", "kuberay"} {
			t.Run(r.name+"/"+launcher, func(t *testing.T) {
				known := options(t, r.name)
				dir := files(t, r.name, launcher)
				args := r.given(t, dir)
				if wrong := unknown(args, known); len(wrong) > 0 {
					t.Errorf("%s does not have %s", r.name, strings.Join(wrong, ", "))
				}
				r.keep(t, r.name+"-"+launcher, dir, args)
				line := " " + strings.Join(args, " ") + " "
				for _, want := range append(r.sizes, r.resume...) {
					if !strings.Contains(line, " "+want+" ") {
						t.Errorf("%s is not in%s", want, line)
					}
				}
				replace(t, filepath.Join(dir, cmp.Or(r.config, "train.sh")), r.typo)
				if wrong := unknown(r.given(t, dir), known); len(wrong) != 1 {
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

// TestDeadline: NeMo-RL is told the end as a time from now on, 15 minutes early; without an end it has none.
func TestDeadline(t *testing.T) {
	dir := files(t, "nemo-rl", "slurm")
	const option = "checkpointing.checkpoint_must_save_by="
	for ends, want := range map[string]string{"": `^null$`, "1": `^'00:00:00:00'$`, "4102444800": `^'\d{4,}:\d\d:\d\d:\d\d'$`,
		fmt.Sprint(time.Now().Unix() + 900 + 7200): `^'00:0(1:59:\d\d|2:00:00)'$`} {
		args := driver(t, dir, map[string]string{"RAYCTL_ENDS_AT": ends})
		i := slices.IndexFunc(args, func(a string) bool { return strings.HasPrefix(a, option) })
		if i < 0 || !regexp.MustCompile(want).MatchString(strings.TrimPrefix(args[i], option)) {
			t.Errorf("ends at %q: %q, want %s", ends, args, want)
		}
	}
}

// TestDeadlineReached: NeMo-RL ends with 0 when it has saved for the end: then train.sh waits for that end, so that the run does not count as done. Any other end is the driver's.
func TestDeadlineReached(t *testing.T) {
	const early = "Timeout has been reached, stopping training early"
	for _, c := range []struct {
		name, program string
		waits         bool
		code          int
	}{
		{"saved for the end", "echo step; echo '" + early + "'", true, 143},
		{"done", "echo step; echo '" + early + "' >&2", false, 0}, // another program's line
		{"failed", "echo '" + early + "'; exit 3", false, 3},
		{"killed", "kill -KILL $$", false, 137},
		{"told to end", `trap 'echo told; exit 5' TERM; echo "` + running + `"; while :; do sleep 0.1; done`, true, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := files(t, "nemo-rl", "slurm")
			node := t.TempDir()
			prepareStand(t, dir, "#!/bin/bash\n"+c.program+"\n")
			command := exec.Command("bash", "train.sh")
			command.Dir = dir
			command.Env = environment(dir, map[string]string{"RAYCTL_ENDS_AT": fmt.Sprint(time.Now().Unix() + 60), "RAYCTL_NODE_DIR": node, "HF_TOKEN": "s3cret", "WANDB_API_KEY": "s3cret"})
			out := &lines{said: make(chan string, 100)}
			command.Stdout = out
			command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			if err := command.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }) // its program, if it was left
			ended := make(chan struct{})
			go func() { _ = command.Wait(); close(ended) }()
			if c.waits {
				for said := ""; !strings.Contains(said, "its nodes wait for that end") && said != running; {
					select {
					case said = <-out.said:
					case <-ended:
						t.Fatal("it did not wait")
					case <-time.After(time.Minute):
						t.Fatal("it does not say that it waits")
					}
				}
				select {
				case <-ended:
					t.Fatal("it did not wait")
				case <-time.After(300 * time.Millisecond):
				}
				_ = command.Process.Signal(syscall.SIGTERM)
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				t.Fatal("it did not end")
			}
			if code := exitCode(command.ProcessState); code != c.code {
				t.Errorf("it ended with %d, want %d", code, c.code)
			}
			if left, err := os.ReadDir(node); err != nil || len(left) > 0 {
				t.Errorf("left in the node's directory: %v %v", left, err)
			}
		})
	}
}

// running is what a program prints that waits for a signal.
const running = "running"

// lines are what a command prints.
type lines struct {
	rest string
	said chan string
}

func (l *lines) Write(p []byte) (int, error) {
	l.rest += string(p)
	for {
		line, rest, whole := strings.Cut(l.rest, "\n")
		if !whole {
			return len(p), nil
		}
		l.rest = rest
		l.said <- line
	}
}

// exitCode is that of a shell: 128 and the signal for a killed process.
func exitCode(state *os.ProcessState) int {
	if of, is := state.Sys().(syscall.WaitStatus); is && of.Signaled() {
		return 128 + int(of.Signal())
	}
	return state.ExitCode()
}

// TestRollResume: ROLL, which looks for checkpoints only in the new directory of each start, is given the newest complete one of all starts.
func TestRollResume(t *testing.T) {
	r := recipes[slices.IndexFunc(recipes, func(r recipe) bool { return r.name == "roll" })]
	dir, out := files(t, "roll", "slurm"), t.TempDir()
	for _, state := range []string{"20260101-000000/checkpoint-100/pipeline/worker_state_pipeline.json", "20260102-000000/checkpoint-20/pipeline/worker_state_pipeline.json",
		"20260102-000000/checkpoint-120/actor_train/model"} { // the last one is not complete
		if err := os.MkdirAll(filepath.Join(out, "checkpoints", filepath.Dir(state)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(out, "checkpoints", state), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	driver(t, dir, map[string]string{"RAYCTL_OUTPUT_DIR": out})
	if want := "resume_from_checkpoint: '" + out + "/checkpoints/20260101-000000/checkpoint-100'\n"; !bytes.Contains(r.resolved(t, dir), []byte(want)) {
		t.Errorf("no %s in %s", want, r.resolved(t, dir))
	}
}

// TestNoNodeLeft: a recipe whose nodes either train or generate refuses a cluster in which none would generate.
func TestNoNodeLeft(t *testing.T) {
	for _, name := range []string{"areal", "trinity"} {
		dir := files(t, name, "kuberay")
		command := exec.Command("bash", "train.sh")
		command.Dir, command.Env = dir, environment(dir, map[string]string{"RAYCTL_GPU_NODES": "1"})
		if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), "raise replicas") {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// openFiles is what each recipe's setup begins with, and bigStack what follows where the framework's own containers have it.
const openFiles, bigStack = "ulimit -Sn 65535 || true\n", "ulimit -Ss 65536 || true "

// written are the variables of each recipe's nodes: all of rayctl.yaml, and of train.sh those of the driver alone, and what its program must not have of the node's.
var written = map[string]struct {
	nodes, driver map[string]string
	without       []string
	stack         bool
}{
	"verl":     {nodes: map[string]string{"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}},
	"openrlhf": {nodes: map[string]string{"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}},
	"nemo-rl": {
		nodes:  map[string]string{"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "NRL_VIRTUAL_CLUSTER_MAX_RETRIES": "10", "HF_HOME": "/shared/hf"},
		driver: map[string]string{"RAY_OVERRIDE_JOB_RUNTIME_ENV": "1"},
		// It gives all of its variables to its actors, also on other nodes.
		without: []string{"HF_TOKEN", "WANDB_API_KEY", "RAYCTL_NODE_DIR", "CUDA_VISIBLE_DEVICES", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TMPDIR"},
	},
	"skyrl": {
		nodes:   map[string]string{"SKYRL_RAY_PG_TIMEOUT_IN_S": "600"}, // its `uv run` needs Ray's environments of uv
		driver:  map[string]string{"WANDB_API_KEY": ofNode},            // it wants to have it itself
		without: []string{"HF_TOKEN"},
	},
	"slime": {
		nodes:  map[string]string{"SLIME_SCRIPT_EXTERNAL_RAY": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1", "PYTHONPATH": "/root/Megatron-LM"},
		driver: map[string]string{"SLIME_HOST_IP": "10.0.0.1"}, stack: true,
	},
	"miles": {
		nodes:  map[string]string{"MILES_SCRIPT_EXTERNAL_RAY": "1", "CUDA_DEVICE_MAX_CONNECTIONS": "1", "PYTHONPATH": "/root/Megatron-LM"},
		driver: map[string]string{"MILES_HOST_IP": "10.0.0.1"}, stack: true,
	},
	"areal":   {},
	"trinity": {nodes: map[string]string{"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0"}},
	"roll":    {nodes: map[string]string{"PYTHONPATH": "/ROLL"}},
}

// ofNode is the value of each variable of a node that a program may not give to actors on others.
const ofNode = "of this node"

// TestRecipesEnvironment: each recipe's nodes and driver have the variables and limits that the framework wants: all of them, and no others.
func TestRecipesEnvironment(t *testing.T) {
	for _, r := range recipes {
		want, is := written[r.name]
		if !is {
			t.Errorf("%s is not in the table", r.name)
		}
		for _, launcher := range []string{"slurm", "kuberay"} {
			dir := files(t, r.name, launcher)
			file := clusterFile(t, dir)
			if !maps.Equal(file.Env, want.nodes) || !strings.HasPrefix(file.Setup, openFiles) {
				t.Errorf("%s on %s has the variables %v and the setup %q, want %v and %q first", r.name, launcher, file.Env, file.Setup, want.nodes, openFiles)
			}
			if strings.HasPrefix(file.Setup, openFiles+bigStack) != want.stack {
				t.Errorf("%s on %s has the setup %q; 64 MiB of stack are wanted: %t", r.name, launcher, file.Setup, want.stack)
			}
			node := map[string]string{"RAYCTL_NODE_DIR": t.TempDir()}
			for _, name := range append(slices.Clone(want.without), "WANDB_API_KEY") {
				node[name] = cmp.Or(node[name], ofNode)
			}
			driver(t, dir, node)
			got := variables(t, dir)
			for _, name := range want.without {
				if value, is := got[name]; is {
					t.Errorf("%s on %s: the driver has %s=%s", r.name, launcher, name, value)
				}
			}
			for name, value := range want.driver {
				if got[name] != value {
					t.Errorf("%s on %s: the driver's %s is %q, want %q", r.name, launcher, name, got[name], value)
				}
			}
		}
	}
}

// TestPorts: Ray's ports of NeMo-RL are below 9000 on Slurm, and not among those that v0.7.0 (11001 to 28000) and later versions (1400 to 1999, and 3000 on) take themselves.
func TestPorts(t *testing.T) {
	if ports := clusterFile(t, files(t, "nemo-rl", "slurm")).Slurm["ports"]; ports != "2000-2999" {
		t.Errorf("slurm.ports is %v", ports)
	}
}

// TestTokens: a recipe's file names the tokens that were asked for, and no others.
func TestTokens(t *testing.T) {
	for _, r := range recipes {
		for _, launcher := range []string{"slurm", "kuberay"} {
			for on, want := range map[string][]string{"false": nil, "true": {"HF_TOKEN", "WANDB_API_KEY"}} {
				file := clusterFile(t, filesWith(t, r.name, "launcher="+launcher, "token="+on, "wandb="+on))
				if !slices.Equal(file.Secrets, want) {
					t.Errorf("%s on %s with both switches %s has the secrets %q, want %q", r.name, launcher, on, file.Secrets, want)
				}
			}
		}
	}
}

// cluster are keys of a rayctl.yaml.
type cluster struct {
	Env     map[string]string
	Setup   string
	Secrets []string
	Slurm   map[string]any
}

func clusterFile(t *testing.T, dir string) (file cluster) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "rayctl.yaml"))
	if err == nil {
		err = yaml.Unmarshal(data, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// files writes a recipe with tokens on; it returns the directory.
func files(t *testing.T, name, launcher string) string {
	t.Helper()
	set := []string{"launcher=" + launcher, "wandb=true", "token=true"}
	if name == "roll" { // whose own check wants the batch to be divisible by the 12 GPUs, too
		set = append(set, "batch=96", "minibatch=48")
	}
	return filesWith(t, name, set...)
}

// filesWith writes a template with these parameters; it returns the directory.
func filesWith(t *testing.T, name string, set ...string) string {
	t.Helper()
	one := template(t, name)
	values, err := one.Values(set, "my-run")
	if err != nil {
		t.Fatal(err)
	}
	written, err := one.Files(values)
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

func template(t *testing.T, name string) *workloads.Template {
	t.Helper()
	all, err := workloads.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	one := workloads.Named(all, name)
	if one == nil {
		t.Fatalf("there is no template %s", name)
	}
	return one
}

// stand is read by bash before train.sh: the directories and files of the image are not here, and python3 and uv write down their arguments.
const stand = `cd() { :; }
source() { :; }
`

const program = `#!/bin/bash
if [ "$1" = -c ]; then echo 10.0.0.1; else printf '%s\0' "$@" >"$ARGUMENTS"; env -0 >"$VARIABLES"; fi
`

// given is what the recipe gives to its framework, each as an option with its value.
func (r *recipe) given(t *testing.T, dir string) []string {
	t.Helper()
	args := driver(t, dir, nil)
	if r.config == "" {
		return args
	}
	if line := strings.Join(args, " "); !strings.Contains(line, strings.TrimSuffix(r.config, ".yaml")) {
		t.Errorf("train.sh does not give %s: %s", r.config, line)
	}
	var config map[string]any
	if err := yaml.Unmarshal(r.resolved(t, dir), &config); err != nil {
		t.Fatal(err)
	}
	delete(config, "hydra") // of the program that reads the file
	return flat("", config)
}

// flat are the leaves of a configuration as KEY=VALUE, with dots between the keys.
func flat(prefix string, config map[string]any) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(config)) {
		if below, is := config[key].(map[string]any); is {
			all = append(all, flat(prefix+key+".", below)...)
		} else {
			all = append(all, fmt.Sprintf("%s%s=%v", prefix, key, config[key]))
		}
	}
	return all
}

// fromEnvironment finds a variable in a configuration of OmegaConf.
var fromEnvironment = regexp.MustCompile(`\$\{oc\.env:(\w+)\}`)

// resolved is the configuration with the variables of train.sh.
func (r *recipe) resolved(t *testing.T, dir string) []byte {
	t.Helper()
	given := variables(t, dir)
	text, err := os.ReadFile(filepath.Join(dir, r.config))
	if err != nil {
		t.Fatal(err)
	}
	text = fromEnvironment.ReplaceAllFunc(text, func(found []byte) []byte {
		return []byte(given[string(fromEnvironment.FindSubmatch(found)[1])])
	})
	return regexp.MustCompile(`\$\{oc\.decode:(.*)\}`).ReplaceAll(text, []byte("$1"))
}

// variables are those of the framework's program, which its stand-in has written down.
func variables(t *testing.T, dir string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "variables"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for pair := range strings.SplitSeq(string(data), "\x00") {
		name, value, _ := strings.Cut(pair, "=")
		all[name] = value
	}
	return all
}

// driver is what train.sh gives to the framework's program.
func driver(t *testing.T, dir string, env map[string]string) []string {
	t.Helper()
	command := exec.Command("bash", "train.sh")
	command.Dir, command.Env = dir, environment(dir, env)
	prepareStand(t, dir, program)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("train.sh: %v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "arguments"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00")
}

// prepareStand writes the program that stands for python3 and uv, and what bash reads first.
func prepareStand(t *testing.T, dir, program string) {
	t.Helper()
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{filepath.Join(bin, "python3"): program, filepath.Join(bin, "uv"): program, filepath.Join(dir, "stand.sh"): stand} {
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
}

// keep writes down a driver's own arguments, or its configuration, for check.sh, which has the framework read them.
func (r *recipe) keep(t *testing.T, name, dir string, args []string) {
	t.Helper()
	to := os.Getenv("RECIPES_ARGUMENTS")
	if to == "" {
		return
	}
	first := slices.IndexFunc(args, func(a string) bool { return isOption.MatchString(a) && !slices.Contains(launching, a) })
	data := []byte(strings.Join(args[first:], "\x00"))
	if r.config != "" {
		data = r.resolved(t, dir)
	}
	if err := os.WriteFile(filepath.Join(to, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func environment(dir string, more map[string]string) []string {
	env := []string{
		"PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "BASH_ENV=" + filepath.Join(dir, "stand.sh"), "ARGUMENTS=" + filepath.Join(dir, "arguments"),
		"VARIABLES=" + filepath.Join(dir, "variables"),
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
var launching = []string{"--isolated", "--extra", "--project", "--config"}

// unknown are the options among arguments that the framework does not have.
func unknown(args []string, known map[string]bool) (wrong []string) {
	for _, a := range args {
		m := isOption.FindStringSubmatch(a)
		if m == nil {
			continue
		}
		if name := m[1] + m[2]; !knows(known, name) && !slices.Contains(launching, name) && !slices.Contains(wrong, name) {
			wrong = append(wrong, name)
		}
	}
	return wrong
}

// knows finds a name also as a key of a dictionary, whose keys are * among the known names.
func knows(known map[string]bool, name string) bool {
	if known[name] {
		return true
	}
	for pattern := range known {
		if strings.Contains(pattern, "*") {
			if is, err := path.Match(strings.ReplaceAll(pattern, ".", "/"), strings.ReplaceAll(name, ".", "/")); is && err == nil {
				return true
			}
		}
	}
	return false
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
	text := string(data)
	for _, after := range []string{"=", " ", ":"} {
		if text == string(data) {
			text = strings.Replace(text, words[0]+after, words[1]+after, 1)
		}
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
