package objects

import (
	"math"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
)

const (
	// defaultStart is the default of lifetime.start: images of workers are pulled meanwhile.
	defaultStart = 30 * time.Minute

	// DashboardPort is of Ray's dashboard, in the head's pod.
	DashboardPort = 8265
	gcsPort       = 6379
	// KeeperPort is of the keeper's HTTP server, in its pod.
	KeeperPort = 8476
)

// Orders translates the cluster file for the keeper. KubeRay starts the nodes: the keeper only looks at them.
func (p *Plan) Orders() *keeper.Orders {
	s := p.Spec
	head, dashboard, gcs := p.headAddress()
	return &keeper.Orders{
		Version: keeper.Version, Name: s.Name, Attempt: 1, Launcher: kuberayspec.Name, SpecHash: p.Hash,
		Ray:    keeper.RaySettings{Version: s.Ray.Version, Least: p.least, Env: s.Env, TempRoot: "/tmp", FastStart: orders.FastStart(s)},
		Groups: p.groups(),
		Start: keeper.Start{
			Mode: keeper.StartExternal, Early: s.Head.Early, Placed: p.Placed(), Held: p.ClusterHeld, Dashboard: "http://" + head + ":" + strconv.Itoa(dashboard), GCS: head + ":" + strconv.Itoa(gcs),
		},
		Listen: "0.0.0.0:" + strconv.Itoa(KeeperPort), Advertise: ServiceName(s.Name) + "." + p.namespace + ".svc",
		// Kubernetes moves pods: the next keeper takes the cluster over.
		Signals: map[string]string{"TERM": "detach"},
		Job:     orders.Job(s, p.scratch(), ""), OutputDir: orders.OutputDir(s, p.scratch()), Scratch: p.scratch() != "", Fetch: p.fetch, Grace: orders.Grace(s), Lifetime: orders.Lifetime(s, defaultStart, p.disconnect),
	}
}

// Placed reports whether workers get their nodes one by one, and report that to the keeper: nodes that are made for a pod may be hours away when the head answers. Pods of a
// RayCluster that is taken as it is do not know the keeper, and without a keeper's pod there is none that they reach.
func (p *Plan) Placed() bool {
	alone := p.Adopted == nil && !p.Admitter.Info().HasObject() && kuberayspec.Of(p.Spec).Keeper != KeeperNone
	return alone && p.Spec.GangNodes() > 1
}

// keeperAddress is the keeper's API as pods see it.
func (p *Plan) keeperAddress() string {
	return "http://" + ServiceName(p.Spec.Name) + "." + p.namespace + ".svc:" + strconv.Itoa(KeeperPort)
}

// groups are all groups, each with the number of nodes that must be alive: the gang. Workers beyond it come when they come, also those of a group of
// which none must, so that they never count as another group's.
func (p *Plan) groups() []keeper.Group {
	var out []keeper.Group
	for _, g := range p.Spec.NodeGroups() {
		n := g.Min // also without a gang: the job begins, and more workers join it
		if g.Head {
			n = max(n, 1)
		}
		cpus, gpus := math.Ceil(float64(cpusOf(g))), float64(g.GPUs)
		if !g.Tasks {
			cpus, gpus = 0, 0
		}
		group := keeper.Group{Name: g.Name, Count: n, CPUs: &cpus, GPUs: &gpus, Resources: g.Resources, Env: g.Env}
		if g.Elastic() {
			group.Max = g.Max
		}
		out = append(out, group)
	}
	return out
}

// scratchDir is the drivers' output directory where the file names none: each pod has one of its own, and it goes with the pod.
const scratchDir = "/rayctl-output"

// scratch is scratchDir if the pods have it: those of a RayCluster that is taken as it is do not.
func (p *Plan) scratch() string {
	if p.Adopted != nil || p.Spec.Job.OutputDir != "" {
		return ""
	}
	return scratchDir
}
