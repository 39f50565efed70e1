package local_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/templates/workloads"
)

// TestGPUsOfTwoNodes: the nodes of this machine divide its GPUs, and the ranks of a node its own; and NeMo-RL's driver, which gives its environment to its actors, leaves
// each its node's. Ray counts the GPUs in its arguments, without asking a driver, so none are needed.
func TestGPUsOfTwoNodes(t *testing.T) {
	state := t.TempDir()
	l := at(t, state)
	s := oneNode(t, "gpus", `echo "rank $RANK, GPU $LOCAL_RANK of $LOCAL_WORLD_SIZE: $CUDA_VISIBLE_DEVICES"`)
	s.Job.Launch = spec.Launch{PerNode: units.EachGPU}
	s.Job.Cwd = recipe(t, "nemo-rl", likeNeMo)
	s.Secrets = []spec.Secret{{Name: "HF_TOKEN"}, {Name: "WANDB_API_KEY"}}
	s.Job.Prepare = `RAYCTL_GPUS_PER_NODE=2 NEMO_RL_DIR=$PWD PATH="$PWD/bin:$PATH" bash train.sh || exit 1
exec python -c '
import os, ray
ray.init(log_to_driver=False)
@ray.remote(num_cpus=0, num_gpus=1)
class GPU:
    def visible(self):
        return os.environ["CUDA_VISIBLE_DEVICES"]
gpus = [GPU.remote() for _ in range(3)]
print(*sorted(ray.get([g.visible.remote() for g in gpus])))'`
	s.Workers = []spec.WorkerGroup{
		{Name: "trainer", NodeResources: spec.NodeResources{CPUs: 2, GPUs: 2}},
		{Name: "rollout", NodeResources: spec.NodeResources{CPUs: 1, GPUs: 1}},
	}
	t.Setenv("CUDA_VISIBLE_DEVICES", "4,6,7")
	t.Cleanup(func() { terminate(t, l, "gpus") })
	var out bytes.Buffer
	oc, err := launcher.Run(within(t), l, s, launcher.Payload{Secrets: map[string]string{"HF_TOKEN": "s3cret-hf", "WANDB_API_KEY": "s3cret-wandb"}}, launcher.RunOptions{Stdout: &out})
	if err != nil {
		t.Fatal(err)
	}
	if u := oc.Receipt.Usage; u.GPUs != 3 || u.GPUSeconds <= 0 {
		t.Errorf("the receipt: %+v", u)
	}
	prepared, ranks, _ := strings.Cut(out.String(), "==> driver <==\n")
	lines := strings.Split(strings.TrimSpace(ranks), "\n")
	slices.Sort(lines)
	want := []string{"[rank 0] rank 0, GPU 0 of 2: 4", "[rank 1] rank 1, GPU 1 of 2: 6", "[rank 2] rank 2, GPU 0 of 1: 7"}
	if oc.Receipt.Exit.Code != 0 || !strings.HasSuffix(prepared, "\n4 6 7\n") || !slices.Equal(lines, want) {
		t.Errorf("%+v, printed %q", oc.Receipt.Exit, out.String())
	}
	const actor = "own node True, own tokens True"
	if nemo := "shown False, tokens True\n4, " + actor + "\n6, " + actor + "\n7, " + actor + "\n"; !strings.Contains(prepared, nemo) {
		t.Errorf("NeMo-RL's driver: %s, want %s", prepared, nemo)
	}
}

// likeNeMo connects to Ray as init_ray of nemo_rl/distributed/virtual_cluster.py does. An actor's parent is its node's raylet.
const likeNeMo = `
import os, ray
env_vars = dict(os.environ)
env_vars.pop("RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES", None)
ray.init(address="auto", log_to_driver=False, include_dashboard=False, runtime_env={"env_vars": env_vars})
@ray.remote(num_cpus=0, num_gpus=1)
class Worker:
    def given(self):
        with open("/proc/%d/environ" % os.getppid()) as file:
            raylet = dict(pair.split("=", 1) for pair in file.read().split("\0") if pair)
        return "%s, own node %s, own tokens %s" % (os.environ["CUDA_VISIBLE_DEVICES"], os.environ["RAYCTL_NODE_DIR"] == raylet["RAYCTL_NODE_DIR"],
            (os.environ.get("HF_TOKEN"), os.environ.get("WANDB_API_KEY")) == ("s3cret-hf", "s3cret-wandb"))
workers = [Worker.remote() for _ in range(3)]
given = sorted(ray.get([w.given.remote() for w in workers]))
with open(os.environ["HF_TOKEN_PATH"]) as token, open(os.environ["NETRC"]) as netrc:
    tokens = token.read() == "s3cret-hf" and netrc.read() == "machine api.wandb.ai\nlogin user\npassword s3cret-wandb\n"
print("shown %s, tokens %s" % ("s3cret" in str(ray.get_runtime_context().runtime_env), tokens))
print(*given, sep="\n")
`

// recipe writes the files of a template, with a program that stands for the framework's, which the template starts with uv; it returns the directory.
func recipe(t *testing.T, name, program string) string {
	t.Helper()
	all, err := workloads.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	one := workloads.Named(all, name)
	values, err := one.Values(nil, "project")
	if err != nil {
		t.Fatal(err)
	}
	files, err := one.Files(values)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files = append(files, workloads.File{Name: "program.py", Content: []byte(program)}, workloads.File{Name: "bin/uv", Content: []byte("#!/bin/sh\nexec python program.py\n")})
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Content, 0o700); err != nil { //nolint:gosec // some are programs
			t.Fatal(err)
		}
	}
	return dir
}

// TestTooManyGPUs: a cluster that asks for more GPUs than this machine has is refused, and nothing is left.
func TestTooManyGPUs(t *testing.T) {
	l := at(t, t.TempDir())
	s := oneNode(t, "gpus", "true")
	s.Workers = []spec.WorkerGroup{{Name: "trainer", NodeResources: spec.NodeResources{CPUs: 1, GPUs: 2}}}
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	_, err := l.Launch(within(t), s, launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), "the cluster asks for 2 GPUs, but CUDA_VISIBLE_DEVICES names 1") {
		t.Errorf("got %v", err)
	}
	if _, err := l.Result(t.Context(), "gpus"); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("a record: %v", err)
	}
}
