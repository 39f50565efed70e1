package local_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// TestGPUsOfTwoNodes: the nodes of this machine divide its GPUs, and the ranks of a node its own. Ray counts the GPUs in its arguments, without asking a driver, so none are needed.
func TestGPUsOfTwoNodes(t *testing.T) {
	state := t.TempDir()
	l := at(t, state)
	s := oneNode(t, "gpus", `echo "rank $RANK, GPU $LOCAL_RANK of $LOCAL_WORLD_SIZE: $CUDA_VISIBLE_DEVICES"`)
	s.Job.Launch = spec.Launch{PerNode: units.EachGPU}
	s.Job.Prepare = `exec python -c '
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
	oc, err := launcher.Run(within(t), l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out})
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
