package onemachine

import (
	"path/filepath"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// visibleGPUs are the variables with the GPUs that programs may use. Ray counts the GPUs in them, too, and a node cannot have more.
var visibleGPUs = []string{"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"}

// checkGPUs refuses a cluster whose nodes ask for more GPUs than the machine has: Ray does not check this, and tasks would fail when they first use one.
func checkGPUs(s *spec.ClusterSpec, dev string, getenv func(string) string) error {
	want := 0
	for _, g := range s.NodeGroups() {
		if g.Tasks {
			want += g.Max * g.GPUs
		}
	}
	have, source, known := gpus(s, dev, getenv)
	if !known || want <= have {
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, nil, "ask for fewer (--gpus-per-worker, gpus), choose another launcher, or name them in env.CUDA_VISIBLE_DEVICES if there are more",
		"the cluster asks for %d GPUs, but %s %d", want, source, have)
}

// checkStores refuses object stores that are together larger than the free space in /dev/shm, if the file sets their sizes: Ray would put them on the disk.
func checkStores(s *spec.ClusterSpec, free int64) error {
	want := int64(0)
	for _, g := range s.NodeGroups() {
		want += int64(g.Max) * g.ObjectStoreMemory.Value()
	}
	if free == 0 || want <= free {
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, nil, "lower objectStoreMemory, or make /dev/shm larger (containers: --shm-size)",
		"the object stores of all nodes take %.1f GiB together, and /dev/shm has %.1f GiB free", float64(want)/(1<<30), float64(free)/(1<<30))
}

// gpus counts what nodes may use. It cannot count GPUs of other makers than NVIDIA.
func gpus(s *spec.ClusterSpec, dev string, getenv func(string) string) (n int, source string, known bool) {
	for _, name := range visibleGPUs {
		list, set := s.Env[name]
		if !set {
			list = getenv(name)
			set = list != ""
		}
		if set {
			return len(strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })), name + " names", true
		}
	}
	if found, err := filepath.Glob(filepath.Join(dev, "nvidia[0-9]*")); err != nil || len(found) > 0 {
		return len(found), "this machine has", err == nil
	}
	for _, other := range []string{"kfd", "dxg", "dri/renderD*"} { // AMD, Windows' for WSL, and any maker's
		if found, err := filepath.Glob(filepath.Join(dev, other)); err != nil || len(found) > 0 {
			return 0, "", false
		}
	}
	return 0, "this machine has", true
}

// devices is where this machine has its devices.
const devices = "/dev"
