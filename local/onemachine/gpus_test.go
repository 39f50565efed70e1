package onemachine

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// TestCheckGPUs: more GPUs than there are is refused, where it is known how many there are.
func TestCheckGPUs(t *testing.T) {
	workers := func(n int) *spec.ClusterSpec {
		s := &spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 2, spec.NodeResources{GPUs: n})}}
		spec.HeadOnFirstGroup(s)
		return s
	}
	named := workers(2)
	named.Env = map[string]string{"CUDA_VISIBLE_DEVICES": "0,1,GPU-x"}
	for name, c := range map[string]struct {
		spec    *spec.ClusterSpec
		devices []string
		visible string // CUDA_VISIBLE_DEVICES of this process
		want    string // "": no error
	}{
		"none asked for":         {workers(0), nil, "", ""},
		"none there":             {workers(4), []string{"nvidiactl", "null"}, "", "the cluster asks for 8 GPUs, but this machine has 0"},
		"enough":                 {workers(1), []string{"nvidia0", "nvidia1", "nvidiactl"}, "", ""},
		"too few":                {workers(2), []string{"nvidia0", "nvidia1", "dri/renderD128"}, "", "asks for 4 GPUs, but this machine has 2"},
		"another maker's":        {workers(4), []string{"dri/renderD128"}, "", ""},
		"hidden":                 {workers(1), []string{"nvidia0", "nvidia1"}, "0", "asks for 2 GPUs, but CUDA_VISIBLE_DEVICES names 1"},
		"pretended":              {workers(1), nil, "4,5", ""},
		"the file's come before": {named, nil, "0,1,2,3,4,5,6,7", "asks for 4 GPUs, but CUDA_VISIBLE_DEVICES names 3"},
	} {
		t.Run(name, func(t *testing.T) {
			dev := t.TempDir()
			for _, d := range c.devices {
				path := filepath.Join(dev, d)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := checkGPUs(c.spec, dev, func(name string) string {
				if name == "CUDA_VISIBLE_DEVICES" {
					return c.visible
				}
				return ""
			})
			if c.want == "" && err != nil || c.want != "" && (launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// TestSizesBeyondTheMachineAreNoted: sizes beyond the machine are noted, and used.
func TestSizesBeyondTheMachineAreNoted(t *testing.T) {
	m := machine{CPUs: 8, Memory: 32 * gib}
	of := func(r spec.NodeResources) string {
		s := &spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 2, r)}}
		spec.HeadOnFirstGroup(s)
		return strings.Join(sizeNotes(s, m), "\n")
	}
	if got := of(spec.NodeResources{CPUs: 4, Memory: resource.MustParse("16Gi")}); got != "" {
		t.Errorf("what fits: %q", got)
	}
	if got := of(spec.NodeResources{CPUs: 250}); !strings.Contains(got, "the nodes have 500 CPUs together, but this machine has 8: ") {
		t.Errorf("CPUs: %q", got)
	}
	many := &spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", 65, spec.NodeResources{})}}
	spec.HeadOnFirstGroup(many)
	if got := strings.Join(sizeNotes(many, m), "\n"); !strings.Contains(got, "65 Ray nodes are many for this machine with 8 processors and 32.0 GiB of memory") {
		t.Errorf("nodes: %q", got)
	}
	if got := of(spec.NodeResources{Memory: resource.MustParse("17Gi")}); !strings.Contains(got, "34.0 GiB of memory together, but this machine has 32.0 GiB") {
		t.Errorf("memory: %q", got)
	}
}

// TestCheckNodeCount: what no machine of this size could start is refused, with its figures, unless the file allows it.
func TestCheckNodeCount(t *testing.T) {
	m := machine{CPUs: 8, Memory: 32 * gib}
	for _, c := range []struct {
		workers, allowed int
		machine          machine
		want             string
	}{
		{workers: 65, machine: m}, // only a note
		{workers: 128, machine: m},
		{workers: 129, machine: m, want: "the cluster begins with 129 Ray nodes, but at most 128 are started on this machine with 8 processors and 32.0 GiB of memory"},
		{workers: 5000, machine: m, want: "--set local.maxNodes=5000"},
		{workers: 5000, allowed: 5000, machine: m},
		{workers: 3, allowed: 2, machine: m, want: "begins with 3 Ray nodes, but at most 2"},
		{workers: 65, machine: machine{CPUs: 2}, want: "at most 64"},
		{workers: 5000, machine: machine{}}, // of which nothing is known
	} {
		s := &spec.ClusterSpec{Workers: []spec.WorkerGroup{group("a", c.workers, spec.NodeResources{})}, Sections: localspec.In(&localspec.Section{MaxNodes: c.allowed})}
		spec.HeadOnFirstGroup(s)
		err := checkNodeCount(s, c.machine)
		if c.want == "" && err != nil || c.want != "" && (launcher.ExitCode(err) != runstate.CodeSpec || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
