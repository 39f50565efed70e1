package script

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/units"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// inside is a plan of so many workers for an allocation of held nodes.
func inside(workers, cpus, gpus, held int) Plan {
	s := &spec.ClusterSpec{Name: "c", Launcher: slurmspec.Name, Sections: slurmspec.In(&slurmspec.Section{Job: slurmspec.CurrentJob}),
		Workers: []spec.WorkerGroup{{Name: "w", Replicas: &workers, NodeResources: spec.NodeResources{CPUs: units.CPUs(cpus), GPUs: gpus}}}}
	return Plan{Spec: spec.For(s, slurmspec.Name), Run: "/r", Nonce: "N", AllocationNodes: held}
}

// TestRoom: workers are on a node each where there are enough nodes, else several on a node. CPUs are as Slurm writes them.
func TestRoom(t *testing.T) {
	for _, test := range []struct {
		workers, cpus, gpus, held int
		nodes                     string
		room                      int
	}{
		{2, 4, 0, 2, "4(x2)", 2},
		{2, 4, 0, 3, "8,2(x2)", 1},
		{3, 2, 0, 2, "4(x2)", 4},
		{3, 2, 1, 2, "4(x2)", 2},
		{1, 0, 0, 1, "1", 1},
		{2, 16, 0, 2, "", 2},
		{2, 1, 0, 2, "nonsense", 0},
	} {
		if room, wanted := inside(test.workers, test.cpus, test.gpus, test.held).Room(test.nodes); room != test.room || wanted != test.workers {
			t.Errorf("%+v: room for %d of %d", test, room, wanted)
		}
	}
}

// TestInside: the script asks Slurm for nothing, and the step has the limits of the file.
func TestInside(t *testing.T) {
	p := inside(2, 4, 1, 3)
	text, err := p.Script()
	if err != nil || strings.Contains(text, "#SBATCH") || !strings.HasSuffix(text, " slurm-batch /r N inside\n") {
		t.Errorf("%v, %s", err, text)
	}
	for _, want := range []string{"--overlap", "--nodelist", "$SLURMD_NODENAME", "--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--cpus-per-task=4", "--gpus-per-node=1", "--job-name=ray-N"} {
		if argv := p.Orders().Start.Argv; !slices.Contains(argv, want) {
			t.Errorf("no %s in %q", want, argv)
		}
	}
}
