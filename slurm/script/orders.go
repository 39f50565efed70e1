package script

import (
	"fmt"
	"path"
	"time"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Plan is everything that orders and script follow from.
type Plan struct {
	Spec            *spec.ClusterSpec // prepared
	Python          string            // interpreter on the nodes
	Programs        string            // directory of the keeper's files
	Run             string            // the run's directory; attempts are below it
	Nonce           string
	Disconnect      time.Duration
	Cluster         string        // in which the jobs stay, of a federation; "": there is no other
	AllocationNodes int           // nodes of somebody else's allocation, where slurm.job is current; 0: it is not known
	longest         time.Duration // that the partitions give, see Within; 0: it is not known, or has no bound
	partitions      []Partition   // see Within; none: they are not known
}

// PlanOf is the plan of a run, made from its record. disconnect is how long a client may be away before the keeper ends the run.
func PlanOf(run *rundir.Run, disconnect time.Duration) Plan {
	r := run.Record
	return Plan{Spec: r.Spec, Python: r.Python, Programs: r.Programs, Run: run.Dir, Nonce: r.Nonce, Disconnect: disconnect}
}

// Orders translates the cluster file for the keeper. It uses only the plan.
func (p Plan) Orders() *keeper.Orders {
	s, listen, dashboard := p.Spec, "127.0.0.1:0", "127.0.0.1"
	if slurmspec.Of(s).Expose == "node" {
		listen, dashboard = "auto:0", "auto"
	}
	return &keeper.Orders{
		Version: keeper.Version, Name: s.Name, Attempt: 1, Launcher: slurmspec.Name, SpecHash: spec.Hash(s),
		Ray: keeper.RaySettings{
			Python: p.Python, Version: s.Ray.Version, Env: s.Env, Setup: s.Setup, TempRoot: p.TempRoot(),
			NodeLogs: slurmspec.Of(s).NodeLogs, FastStart: orders.FastStart(s),
		},
		Groups: p.groups(), Scaling: orders.Scaling(s),
		Start: p.step(),
		// On loopback of the head's node clients come through a step of the job.
		Listen: listen, Advertise: advertise(s), DashboardHost: dashboard,
		Network: slurmspec.Of(s).Network, Ports: slurmspec.Of(s).Ports,
		Job: orders.Job(s, path.Join(p.Run, rundir.OutputName), slurmspec.Of(s).Ports), OutputDir: orders.OutputDir(s, path.Join(p.Run, rundir.OutputName)),
		Grace: orders.Grace(s), Lifetime: orders.Lifetime(s, orders.Start, p.Disconnect), ShareDir: s.Job.ShareDir,
	}
}

// TempRoot is where nodes make their directories.
func (p Plan) TempRoot() string {
	if slurmspec.Of(p.Spec).TmpDir != "" {
		return slurmspec.Of(p.Spec).TmpDir
	}
	return "/tmp"
}

// storeShare of a node's memory is Ray's object store, as Ray's own default.
const storeShare = 0.3

// groups is what each node has. The node itself reads from Slurm the sizes that the file does not set.
func (p Plan) groups() []keeper.Group {
	var out []keeper.Group
	for _, g := range p.Spec.NodeGroups() {
		if g.Max == 0 {
			continue
		}
		group := orders.Group(g)
		gpus := float64(g.GPUs)
		group.GPUs = &gpus
		if g.CPUs > 0 || !p.exclusive(g) {
			cpus := float64(max(1, g.CPUs))
			group.CPUs = &cpus
		}
		if !g.Tasks {
			none := 0.0
			group.CPUs, group.GPUs = &none, &none
		}
		if !g.Memory.IsZero() {
			memory := g.Memory.Value()
			store := int64(float64(memory) * storeShare)
			group.Memory, group.ObjectStoreMemory = &memory, &store
		}
		if !g.ObjectStoreMemory.IsZero() {
			store := g.ObjectStoreMemory.Value()
			group.ObjectStoreMemory = &store
		}
		out = append(out, group)
	}
	return out
}

// CheckReservation refuses a driver that fits on no node.
func (p Plan) CheckReservation() error { return orders.FitsGroups(p.Spec, p.groups()) }

func (p Plan) exclusive(g spec.NodeGroup) bool {
	e := slurmspec.For(p.Spec, g).Exclusive
	return e != nil && *e
}

// runDirVariable is the argument in whose place the keeper puts the attempt's directory.
const runDirVariable = "$RAYCTL_RUN_DIR"

// step starts a supervisor on every node by one srun. It does not end when one of them does: the keeper decides.
func (p Plan) step() keeper.Start {
	name := "ray"
	if p.isInside() {
		name = nodesStep(p.Nonce)
	}
	argv := []string{"srun", "--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--cpu-bind=none", "--export=ALL", "--job-name=" + name, "--input=none"}
	if p.isInside() {
		argv = append(argv, p.inside()...)
	}
	if n := len(p.Components()); n > 1 {
		groups := "--het-group=0"
		for i := 1; i < n; i++ {
			groups += fmt.Sprintf(",%d", i)
		}
		argv = append(argv, groups)
	}
	warning := p.Warning().Seconds()
	if p.isInside() {
		warning = 0 // nobody asks Slurm for it
	}
	return keeper.Start{
		Mode: keeper.StartStep, Early: p.Spec.Head.Early, Argv: argv, Container: p.container(), Warning: warning, Companions: p.companions(),
		Command: p.onNode(keeperzip.Supervisor, runDirVariable, "--slurm"),
	}
}

// onNode is a role of the keeper's program where Ray's nodes are, in the container if there is one.
func (p Plan) onNode(role ...string) []string {
	python := p.Python
	if !slurmspec.InContainer(p.Spec) {
		python = p.HostPython()
	}
	return append([]string{python, "-E", "-s", path.Join(p.Programs, keeperzip.File)}, role...)
}
