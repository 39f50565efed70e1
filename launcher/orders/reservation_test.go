package orders_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestReservation: a driver that fits on no node is refused, with the key and the largest node; what is not known of the nodes refuses nothing.
func TestReservation(t *testing.T) {
	two, none, eight, memory := 2.0, 0.0, 8.0, int64(8<<30)
	groups := []keeper.Group{
		{Name: "head", CPUs: &two, GPUs: &none, Memory: &memory},
		{Name: "gpu", Max: 4, CPUs: &eight, GPUs: &eight, Resources: map[string]float64{"ssd": 1}}, // elastic, none yet; its memory is not known
	}
	s := &spec.ClusterSpec{Workers: []spec.WorkerGroup{{Name: "gpu", NodeResources: spec.NodeResources{Labels: map[string]string{"disk": "fast"}}}}}
	small := groups[:1]
	for _, test := range []struct {
		job    spec.Job
		groups []keeper.Group
		want   string // "": it fits
	}{
		{spec.Job{}, small, ""},
		{spec.Job{EntrypointCPUs: 2}, small, ""},
		{spec.Job{EntrypointCPUs: 100}, small, "job.entrypointCpus: the driver reserves 100 CPUs on one node, and no node of the cluster has more than 2 CPUs (group head)"},
		{spec.Job{EntrypointCPUs: 9}, groups, "has more than 8 CPUs (group gpu)"},
		{spec.Job{EntrypointGPUs: 1}, small, "job.entrypointGpus: the driver reserves 1 GPU on one node, and no node of the cluster has more than 0 GPUs (group head)"},
		{spec.Job{EntrypointGPUs: 8}, groups, ""},
		{spec.Job{EntrypointMemory: resource.MustParse("9Gi")}, small, "reserves 9 GiB of memory on one node, and no node of the cluster has more than 8 GiB of memory"},
		{spec.Job{EntrypointMemory: resource.MustParse("9Gi")}, groups, ""},
		{spec.Job{EntrypointResources: map[string]float64{"ssd": 1}}, groups, ""},
		{spec.Job{EntrypointResources: map[string]float64{"hdd": 1}}, groups, "job.entrypointResources.hdd: the driver reserves 1 hdd on one node"},
		{spec.Job{EntrypointResources: map[string]float64{"TPU": 4, "node:10.0.0.1": 0.1}}, small, ""}, // Ray finds them
		{spec.Job{EntrypointLabelSelector: map[string]string{"disk": "in(fast, slow)", "ray.io/accelerator-type": "H100"}}, groups, ""},
		{spec.Job{EntrypointLabelSelector: map[string]string{"disk": "fast"}}, small, `no node of the cluster has a label disk that is "fast"`},
		{spec.Job{EntrypointLabelSelector: map[string]string{"disk": "!fast"}}, groups, ""},
		{spec.Job{EntrypointGPUs: 1, EntrypointLabelSelector: map[string]string{"disk": "!fast"}}, groups, "all that the driver reserves together: 1 GPU, label disk=!fast"},
	} {
		s.Job = test.job
		err := orders.FitsGroups(s, test.groups)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s: %v", orders.Reserved(&test.job), err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || launcher.ExitCode(err) != runstate.CodeSpec):
			t.Errorf("%s: %v, want %q", orders.Reserved(&test.job), err, test.want)
		}
	}
}
