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
	pace.AtOnce("8") // namespaces side by side
	conformance.Main(m, func(kubeconfig string) launcher.Launcher {
		return kuberay.New(kuberay.Config{Kubeconfig: kubeconfig})
	})
}

// patience is generous: testing machines are loaded.
const patience = 5 * time.Minute

func TestConformance(t *testing.T) {
	pace.Parallel(t)
	conformance.Run(t, newBed(t).conformance())
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
		Allocated: b.left, KillKeeper: b.killKeeper, KillKeeperProcess: b.killKeeperProcess, KeeperReturns: true, KillHead: b.killHead,
		Hold: b.hold, FreezeDashboard: b.freezeDashboard, NameServiceAway: b.nameServiceAway,
		Elastic:  true,
		Surfaces: b.surfaces, Story: b.story, Patience: patience,
	}
}

func smallSpec() *spec.ClusterSpec {
	return &spec.ClusterSpec{
		Launcher: kuberayspec.Name, Ray: spec.Ray{Version: "2.60.0"},
		Head: spec.Head{NodeResources: smallNode()},
	}
}

func smallNode() spec.NodeResources {
	return spec.NodeResources{CPUs: 0.2, Memory: resource.MustParse("3Gi")}
}
