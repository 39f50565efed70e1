package kuberay_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/pace"
)

// TestMain: the setting is a kubeconfig whose context names the namespace.
func TestMain(m *testing.M) {
	pace.AtOnce("5") // namespaces side by side: with more, pods wait long for the node's memory
	conformance.Main(m, func(kubeconfig string) launcher.Launcher {
		return kuberay.New(kuberay.Config{Kubeconfig: kubeconfig})
	})
}

// patience is generous: testing machines are loaded.
const patience = 5 * time.Minute

// TestConformance has no pace.Parallel: its scenarios run before the tests that do, side by side. Go would begin it among the last ones, and its scenarios would be
// what runs alone in the end.
func TestConformance(t *testing.T) {
	c := newBed(t).conformance()
	c.Elsewhere = map[string]string{
		// The keeper's and Ray's, which are the same on local.
		"runtime environment that fails": "local", "interrupt twice": "local", "end on disconnect": "local", "prepare, then the driver": "local", "prepare hangs": "local",
		"drivers that fail, and restarts": "local", "warned of the end": "local",

		"queue limit":                            "TestQueueFull",
		"elastic group":                          "TestElastic/Example",
		"early head":                             "TestEarly/KeeperLost",
		"early head and driver":                  "TestEarly/Elastic",
		"prepare fails":                          "TestEarly/PrepareFails",
		"prepare is interrupted":                 "TestEarly/Evicted",
		"keeper killed while preparing":          "TestEarly/KeeperLost",
		"keeper killed":                          "TestKeeperKilledAgain",
		"keeper killed before the gang is there": "TestKeeperLostAround",
		"keeper killed while its cluster ends":   "TestKeeperLostAround",
		"interrupt with a checkpoint":            "TestKeeperLostAround, TestAPIServerRestarted",
		"clients killed after the commit":        "TestNobodyWatched, TestNamespaceDeleted",
	}
	conformance.Run(t, c)
}

func (b bed) conformance() conformance.Config {
	return conformance.Config{
		Setting: b.kubeconfig,
		Spec:    smallSpec,
		TwoGroups: func() *spec.ClusterSpec {
			s := smallSpec()
			s.Head = spec.Head{On: "a"}
			s.Workers = []spec.WorkerGroup{{Name: "a", NodeResources: smallNode()}, {Name: "b", NodeResources: smallNode()}}
			s.Workers[1].Resources = map[string]float64{"b": 1}
			return s
		},
		WithGPU:   func(s *spec.ClusterSpec) { s.Head.GPUs = 1 },
		Allocated: b.left, KillKeeper: b.killKeeper, KillKeeperProcess: b.killKeeperProcess, KeeperReturns: true, KillHead: b.killHead,
		Hold: b.hold, FreezeDashboard: b.freezeDashboard, NameServiceAway: b.nameServiceAway,
		HoldWorkers: b.holdWorkers, Elastic: true, PacksFirst: true,
		Without:  map[string]string{"client killed before the commit": "TestClientDiesBetweenWrites ends clients after each write that comes after the packing"},
		OneToken: true, Surfaces: b.surfaces, Story: b.story, Patience: patience,
	}
}

// holdWorkers lets them wait in a queue of their own.
func (b bed) holdWorkers(t *testing.T, s *spec.ClusterSpec) func() {
	t.Helper()
	queue := b.tinyQueue(t)
	s.Sections = kuberayspec.In(&kuberayspec.Section{Queue: queue})
	return func() { b.widen(t, queue) }
}

func smallSpec() *spec.ClusterSpec {
	return &spec.ClusterSpec{
		Launcher: kuberayspec.Name, Ray: spec.Ray{Version: "2.60.0"},
		Head: spec.Head{NodeResources: smallNode()},
	}
}

func smallNode() spec.NodeResources {
	return spec.NodeResources{CPUs: 0.2, Memory: resource.MustParse("2Gi")} // a head takes 0.7 GiB; the node's memory limits how many tests run side by side
}
