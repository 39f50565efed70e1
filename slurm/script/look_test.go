package script

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// TestOneOf: what doctor asks srun for is what the job has of one node.
func TestOneOf(t *testing.T) {
	exclusive := true
	for name, c := range map[string]struct {
		head         spec.NodeResources
		want, inside []string
	}{
		"sizes": {spec.NodeResources{CPUs: 3, Memory: resource.MustParse("1Gi"), GPUs: 2, GPUType: "h100"},
			[]string{"--nodes=1", "--ntasks-per-node=1", "--cpus-per-task=3", "--mem=1024M", "--ntasks=1", "--gpus-per-node=h100:2"},
			[]string{"--overlap", "--nodelist=n1", "--nodes=1", "--ntasks=1", "--cpus-per-task=3", "--gpus-per-node=h100:2"}},
		"whole node": {spec.NodeResources{Sections: slurmspec.GroupIn(&slurmspec.Group{Exclusive: &exclusive})},
			[]string{"--nodes=1", "--ntasks-per-node=1", "--mem=0", "--ntasks=1", "--exclusive"}, []string{"--overlap", "--nodelist=n1", "--nodes=1", "--ntasks=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := planFor(&spec.ClusterSpec{Head: spec.Head{NodeResources: c.head}})
			head := p.Spec.NodeGroups()[0]
			if diff := cmp.Diff(c.want, p.OneOf(head)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(c.inside, p.OneInside(head, "n1")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestLook: doctor's container has what the job's has; only what runs in it differs. Pyxis needs an srun of its own.
func TestLook(t *testing.T) {
	for runtime, argv := range map[string]string{"pyxis": "srun", "apptainer": ""} {
		s := &spec.ClusterSpec{Image: "ray.sif", Ray: spec.Ray{Python: "/in/python"}, Sections: slurmspec.In(&slurmspec.Section{ContainerRuntime: runtime, ContainerArgs: []string{"--container-mount-home"}})}
		p := planFor(s)
		looks, job := p.DoctorOrders(), p.Orders()
		if diff := cmp.Diff(job.Start.Container, looks.Start.Container); diff != "" {
			t.Error(diff)
		}
		if got := strings.Join(looks.Start.Argv, " "); !strings.HasPrefix(got, argv) || argv == "" && got != "" {
			t.Errorf("%s: by %q", runtime, got)
		}
		if got, want := strings.Join(looks.Start.Command, " "), "/v/bin/python -E -s /s/keeper/keeper-1/keeper.pyz slurm-look $RAYCTL_RUN_DIR within"; got != want {
			t.Errorf("%s: %q, want %q", runtime, got, want)
		}
	}
}

// TestStaysInCluster: in a federation all jobs of a cluster name the one in which they stay, those that its nodes submit, too.
func TestStaysInCluster(t *testing.T) {
	four := 4
	elastic := spec.WorkerGroup{Name: "w", MaxReplicas: &four, NodeResources: spec.NodeResources{CPUs: 1}}
	p := planFor(&spec.ClusterSpec{Head: spec.Head{Early: true, NodeResources: spec.NodeResources{CPUs: 1}}, Workers: []spec.WorkerGroup{group("a", 2, spec.NodeResources{CPUs: 2}), elastic}})
	p.Cluster = "a b"
	scripts, err := p.Companions()
	if err != nil {
		t.Fatal(err)
	}
	if scripts[File], err = p.Script(); err != nil {
		t.Fatal(err)
	}
	for name, text := range scripts {
		if !strings.Contains(text, "#SBATCH --clusters='a b'\n") {
			t.Errorf("%s may run elsewhere:\n%s", name, text)
		}
	}
	if len(scripts) < 3 {
		t.Errorf("%d scripts", len(scripts))
	}
}
