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
	Spec       *spec.ClusterSpec // prepared
	Python     string            // interpreter on the nodes
	Programs   string            // directory of the keeper's files
	Run        string            // the run's directory; attempts are below it
	Nonce      string
	Disconnect time.Duration
	longest    time.Duration // that the partitions give, see Within; 0: it is not known, or has no bound
}

// PlanOf is the plan of a run, made from its record. disconnect is how long a client may be gone before the keeper ends the run.
func PlanOf(run *rundir.Run, disconnect time.Duration) Plan {
	r := run.Record
	return Plan{Spec: r.Spec, Python: r.Python, Programs: r.Programs, Run: run.Dir, Nonce: r.Nonce, Disconnect: disconnect}
}

// Orders translates the cluster file for the keeper. It looks at nothing but the plan.
func (p Plan) Orders() *keeper.Orders {
	s, listen, dashboard := p.Spec, "127.0.0.1:0", "127.0.0.1"
	if slurmspec.Of(s).Expose == "node" {
		listen, dashboard = "auto:0", "auto"
	}
	return &keeper.Orders{
		Version: keeper.Version, Name: s.Name, Attempt: 1, Launcher: slurmspec.Name, SpecHash: spec.Hash(s),
		Ray: keeper.RaySettings{
			Python: p.Python, Version: s.Ray.Version, Env: s.Env, Setup: p.setup(), TempRoot: p.TempRoot(),
			NodeLogs: slurmspec.Of(s).NodeLogs, FastStart: orders.FastStart(s),
		},
		Groups: p.groups(),
		Start:  keeper.Start{Mode: keeper.StartStep, Argv: p.step()},
		// On loopback of the head's node clients come through a step of the job.
		Listen: listen, Advertise: "auto", DashboardHost: dashboard,
		Job:   orders.Job(s, path.Join(p.Run, rundir.OutputName)),
		Grace: orders.Grace(s), Lifetime: orders.Lifetime(s, orders.Start, p.Disconnect),
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
		if g.Count == 0 {
			continue
		}
		group := keeper.Group{
			Name: g.Name, Count: g.Count, Resources: g.Resources, ObjectSpillingDirectory: g.ObjectSpillingDirectory, Labels: g.Labels, Env: g.Env,
		}
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

func (p Plan) exclusive(g spec.NodeGroup) bool {
	e := slurmspec.For(p.Spec, g).Exclusive
	return e != nil && *e
}

// HostPython runs keeper and relay, which need no Ray: with containers, the nodes' own.
func (p Plan) HostPython() string {
	if slurmspec.Of(p.Spec).ContainerRuntime != "none" {
		return "python3"
	}
	return p.Python
}

// setup is the modules and the user's own lines.
func (p Plan) setup() string {
	if len(slurmspec.Of(p.Spec).Modules) == 0 {
		return p.Spec.Setup
	}
	// Batch shells are not login shells: `module` may have to be defined first.
	lines := "type module >/dev/null 2>&1 || . /etc/profile\nmodule load"
	for _, m := range slurmspec.Of(p.Spec).Modules {
		lines += " " + quote(m)
	}
	return lines + "\n" + p.Spec.Setup
}

// runDirVariable is what the batch script sets to the attempt's directory; the keeper fills it in.
const runDirVariable = "$RAYCTL_RUN_DIR"

// step is the one srun that starts a supervisor on every node. It does not end when one of them does: the keeper decides.
func (p Plan) step() []string {
	argv := []string{"srun", "--kill-on-bad-exit=0", "--wait=0", "--mpi=none", "--cpu-bind=none", "--export=ALL", "--job-name=ray", "--input=none"}
	if n := len(p.Components()); n > 1 {
		groups := "--het-group=0"
		for i := 1; i < n; i++ {
			groups += fmt.Sprintf(",%d", i)
		}
		argv = append(argv, groups)
	}
	python := p.Python
	switch slurmspec.Of(p.Spec).ContainerRuntime {
	case "pyxis":
		argv = append(argv, p.pyxis()...)
	case "apptainer":
		argv = append(argv, p.apptainer()...)
	}
	return append(argv, python, "-E", "-s", path.Join(p.Programs, keeperzip.File), keeperzip.Supervisor, runDirVariable, "--slurm")
}

// binds are the paths of the host that a container sees: run directory, programs, mounts.
func (p Plan) binds() (out []string) {
	for _, dir := range []string{p.Run, p.Programs} {
		out = append(out, dir+":"+dir)
	}
	for _, m := range p.Spec.Mounts {
		bind := slurmspec.Source(m.Source.Sections) + ":" + m.MountPath
		if m.ReadOnly {
			bind += ":ro"
		}
		out = append(out, bind)
	}
	return out
}

func (p Plan) pyxis() []string {
	mounts := ""
	for i, b := range p.binds() {
		if i > 0 {
			mounts += ","
		}
		mounts += b
	}
	return []string{"--container-image=" + slurmspec.Of(p.Spec).ContainerImage, "--container-mounts=" + mounts, "--no-container-remap-root"}
}

func (p Plan) apptainer() []string {
	argv := []string{"apptainer", "exec"}
	for _, g := range p.Spec.NodeGroups() {
		if g.GPUs > 0 {
			argv = append(argv, "--nv")
			break
		}
	}
	for _, b := range p.binds() {
		argv = append(argv, "--bind", b)
	}
	return append(argv, slurmspec.Of(p.Spec).ContainerImage)
}
