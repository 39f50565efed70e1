package jobs

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestReservation: a driver that fits on no node of the cluster is refused, also where an elastic group has no node yet: then its size is the file's.
func TestReservation(t *testing.T) {
	on := func(file *spec.ClusterSpec) func() launcher.Launcher {
		return func() launcher.Launcher {
			return (&apptest.Launcher{Ray: &apptest.Ray{}, File: file}).With("dev") // its head has 8 CPUs and 4 GPUs
		}
	}
	submit := func(reserves string) string { return "submit dev -q -d --submission-id mine " + reserves + " -- true" }
	apptest.Run(t, verbs, on(nil), []apptest.Line{
		{Args: submit("--entrypoint-num-cpus 8"), Out: "mine\n"},
		{Args: submit("--entrypoint-num-cpus 9"), Code: runstate.CodeSpec, Err: "the driver reserves 9 CPUs on one node, and no node of the cluster has more than 8 CPUs (node head-0)"},
	})
	big := spec.NodeResources{CPUs: 16, GPUs: 8, Memory: resource.MustParse("64Gi"), Resources: map[string]float64{"ssd": 2}}
	apptest.Run(t, verbs, on(&spec.ClusterSpec{Workers: []spec.WorkerGroup{{Name: "big", NodeResources: big}}}), []apptest.Line{
		{Args: submit("--entrypoint-num-cpus 16"), Out: "mine\n"},
		{Args: submit("--entrypoint-num-cpus 100"), Code: runstate.CodeSpec, Err: "the driver reserves 100 CPUs on one node, and no node of the cluster has more than 16 CPUs (group big)"},
		{Args: submit("--entrypoint-num-gpus 8"), Out: "mine\n"},
		{Args: submit("--entrypoint-num-gpus 9"), Code: runstate.CodeSpec, Err: "has more than 8 GPUs (group big)"},
		{Args: submit("--entrypoint-memory 64Gi"), Out: "mine\n"},
		{Args: submit("--entrypoint-memory 65Gi"), Code: runstate.CodeSpec, Err: "has more than 64 GiB of memory (group big)"},
		{Args: submit("--entrypoint-resources ssd=2"), Out: "mine\n"},
		{Args: submit("--entrypoint-resources ssd=3"), Code: runstate.CodeSpec, Err: "has more than 2 ssd (group big)"},
		{Args: submit("--entrypoint-resources TPU=4"), Out: "mine\n"}, // Ray finds them
	})
	apptest.Run(t, verbs, on(&spec.ClusterSpec{Workers: []spec.WorkerGroup{{Name: "any"}}}), []apptest.Line{
		{Args: submit("--entrypoint-num-cpus 100"), Out: "mine\n"}, // as many as the site gives
		{Args: submit("--entrypoint-num-gpus 5"), Code: runstate.CodeSpec, Err: "has more than 4 GPUs (node head-0)"},
	})
}
