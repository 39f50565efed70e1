package orders_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

// TestFitsRanks: ranks that nodes cannot have are refused before anything is allocated.
func TestFitsRanks(t *testing.T) {
	four, part, none := 4.0, 0.2, 0.0
	for _, c := range []struct {
		gpus   int
		cpus   *float64
		launch spec.Launch
		want   string
	}{
		{0, &four, spec.Launch{PerNode: 4}, ""},
		{0, nil, spec.Launch{PerNode: 400}, ""}, // only Slurm knows
		{0, &part, spec.Launch{PerNode: 1}, ""},
		{0, &none, spec.Launch{PerNode: 2}, ""}, // a head that takes no tasks
		{0, &four, spec.Launch{}, ""},
		{0, &four, spec.Launch{PerNode: 5}, "job.launch: a node of group w has 4 CPUs for 5 processes"},
		{0, &four, spec.Launch{PerNode: units.EachGPU, Groups: []string{"w"}}, "the nodes of group w have no GPU"},
		{8, nil, spec.Launch{PerNode: units.EachGPU}, ""},
		{8, nil, spec.Launch{PerNode: 16}, ""},
		{8, nil, spec.Launch{PerNode: 3}, "the 8 GPUs of a node of group w cannot be divided equally among 3 processes"},
	} {
		s := &spec.ClusterSpec{Workers: []spec.WorkerGroup{{Name: "w", NodeResources: spec.NodeResources{GPUs: c.gpus}}}, Job: spec.Job{Launch: c.launch}}
		err := orders.FitsGroups(s, []keeper.Group{{Name: "w", CPUs: c.cpus}})
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%+v: %v", c.launch, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || launcher.ExitCode(err) != runstate.CodeSpec):
			t.Errorf("%+v: %v, want %q", c.launch, err, c.want)
		}
	}
}
