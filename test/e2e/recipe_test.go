package e2e

import (
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/test/pace"
)

// standInForVerl takes the place of verl, which needs GPUs and a model: it notes what it was given, and saves and finds its checkpoint where verl does (trainer.default_local_dir).
// The first attempt takes away what says that model and data are loaded, so that another preparation would load them again, and waits to be killed.
const standInForVerl = `import glob, json, os, signal, sys
import ray

options = dict(argument.split("=", 1) for argument in sys.argv[1:])
ray.init(log_to_driver=False, logging_level="ERROR")
variables = lambda: {name: os.environ.get(name) for name in ("HF_TOKEN", "WANDB_API_KEY", "RAYCTL_ENDS_AT", "MLP_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP")}
saved = os.path.join(options["trainer.default_local_dir"], "latest_checkpointed_iteration.txt")
begun = int(open(saved).read()) if os.path.exists(saved) else 0
given = {"options": options, "driver": variables(), "actor": ray.get(ray.remote(variables).remote()), "begun": begun, "gpus": [node["Resources"].get("GPU") for node in ray.nodes()]}
with open(os.path.join(os.environ["RAYCTL_OUTPUT_DIR"], "attempt-" + os.environ["RAYCTL_ATTEMPT"] + ".json"), "w") as file:
    json.dump(given, file)
os.makedirs(os.path.dirname(saved), exist_ok=True)
with open(saved, "w") as file:
    file.write(str(begun + 1))
if begun == 0:
    shared = os.path.dirname(os.environ["RAYCTL_OUTPUT_DIR"])
    for loaded in glob.glob(shared + "/**/.loaded", recursive=True):
        os.remove(loaded)
    print("saved", flush=True)
    signal.pause()
print("went on from iteration", begun)
`

// standInForDatasets is as much of Hugging Face's datasets as prepare.sh needs.
const standInForDatasets = `class Rows(list):
    def map(self, change):
        return Rows(change(row) for row in self)
    def to_parquet(self, path):
        with open(path, "w") as file:
            print(*self, file=file)
def load_dataset(source, name, split):
    return Rows([{"question": "6 * 7?", "answer": "so it is #### 42"}])
`

// standInForHF is Hugging Face's program: it makes the directory that is its last argument, and notes the command.
const standInForHF = `#!/bin/sh
for last; do :; done
mkdir -p "$last" && echo "$*" >>"$NOTES"
`

// TestRecipe runs all that `rayctl init verl` writes, for Slurm, unchanged on this machine: prepare.sh once, train.sh once an attempt. Only verl and the programs that load something are
// stand-ins. The launchers' own part, such as the mounts of Slurm, is the conformance suite's.
func TestRecipe(t *testing.T) {
	pace.Parallel(t)
	u := newUser(t)
	shared := filepath.Join(u.dir, "shared")
	tokens := map[string]string{"HF_TOKEN": "hf-7c1d0be5 $(id)", "WANDB_API_KEY": "wandb-93aa41f2"}
	u.env = []string{"PATH=" + filepath.Join(u.dir, "bin") + ":" + os.Getenv("PATH"), "NOTES=" + u.write("shared/notes", "")}
	for name, value := range tokens {
		u.env = append(u.env, name+"="+value)
	}
	if err := os.Chmod(u.write("bin/hf", standInForHF), 0o755); err != nil {
		t.Fatal(err)
	}
	u.want(0, "init", "verl", "--launcher", "slurm", "--dir", "recipe", "--set", "nodes=2", "--set", "gpus=4", "--set", "token=true", "--set", "wandb=true", "--set", "shared="+shared)
	u.write("recipe/verl/trainer/main_ppo.py", standInForVerl)
	u.write("recipe/datasets.py", standInForDatasets)

	run := u.start(false, "run", "--launcher", "local", "-f", "recipe/rayctl.yaml", "--name", "recipe", "--set", "job.restarts.driver=1", "--set", "env.CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7")
	run.until("saved\n", 1)
	jobs := u.jobsOf("recipe")
	contains(t, "the jobs that Ray tells of", jobs, "train.sh")
	// On this machine nodes have the variables of the user's shell anyway: that rayctl gives them the tokens, this file tells.
	secrets, err := os.ReadFile(filepath.Join(home.dir, "state", "rayctl", "clusters", "recipe", keeper.SecretsFile))
	if err != nil || !maps.Equal(decode[map[string]string](t, string(secrets)), tokens) {
		t.Errorf("rayctl gives its nodes the secrets %s, %v", secrets, err)
	}
	drivers := processesOf(t, "recipe", func(words []string, _ []byte) bool { return slices.Contains(words, "verl.trainer.main_ppo") })
	if len(drivers) != 1 {
		t.Fatalf("%d drivers run: %s", len(drivers), tail(run.String()))
	}
	if err := syscall.Kill(drivers[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if code := run.code(); code != 0 {
		t.Fatalf("exit code %d: %s", code, tail(run.String()))
	}
	contains(t, "the run", run.String(), "went on from iteration 1\n")
	for where, text := range map[string]string{"the jobs that Ray tells of": jobs, "the output": run.String()} {
		for name, value := range tokens {
			if strings.Contains(text, value) {
				t.Errorf("the value of %s is in %s", name, where)
			}
		}
	}
	out := filepath.Join("shared", "recipe")
	for attempt, file := range []string{"attempt-1.json", "attempt-2.json"} {
		given := decode[struct {
			Options, Driver, Actor map[string]string
			Begun                  int
			GPUs                   []float64
		}](t, u.read(filepath.Join(out, file)))
		for option, want := range map[string]string{"trainer.nnodes": "2", "trainer.n_gpus_per_node": "4", "trainer.default_local_dir": filepath.Join(u.dir, out, "checkpoints"), "trainer.resume_mode": "auto"} {
			if given.Options[option] != want {
				t.Errorf("%s: %s is %q, want %q", file, option, given.Options[option], want)
			}
		}
		if given.Begun != attempt || !slices.Equal(given.GPUs, []float64{4, 4}) {
			t.Errorf("%s: began at iteration %d, with the GPUs %v", file, given.Begun, given.GPUs)
		}
		for name, value := range tokens {
			if given.Driver[name] != value || given.Actor[name] != value {
				t.Errorf("%s: %s is %q in the driver and %q in an actor", file, name, given.Driver[name], given.Actor[name])
			}
		}
		if end := given.Driver["RAYCTL_ENDS_AT"]; end == "" || given.Driver["MLP_CURRENT_CAPACITY_BLOCK_EXPIRATION_TIMESTAMP"] != end {
			t.Errorf("%s: verl is not told of the end: %v", file, given.Driver)
		}
	}
	if loads := strings.Split(strings.TrimSpace(u.read("shared/notes")), "\n"); len(loads) != 2 || !strings.HasPrefix(loads[0], "download Qwen/Qwen3-8B ") || !strings.HasPrefix(loads[1], "download openai/gsm8k ") {
		t.Errorf("model and data were not loaded once each: %q", loads)
	}
	contains(t, "the data", u.read("shared/data/gsm8k/train.parquet"), "'ground_truth': '42'")
}

// jobsOf is what Ray's job API tells of a cluster's jobs.
func (u *user) jobsOf(cluster string) string {
	u.t.Helper()
	vars := decode[map[string]string](u.t, u.want(0, "env", cluster, "-o", "json").out)
	token, err := os.ReadFile(vars["RAY_AUTH_TOKEN_PATH"])
	if err != nil {
		u.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(u.t.Context(), http.MethodGet, vars["RAY_API_SERVER_ADDRESS"]+"/api/jobs/", nil)
	if err != nil {
		u.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		u.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		u.t.Fatalf("%s: %v, %s", answer.Status, err, text)
	}
	return string(text)
}
