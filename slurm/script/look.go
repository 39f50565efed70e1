package script

import (
	"fmt"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// lookWithin is the argument of RoleLook for what runs where Ray would, in the container if there is one (keeper/rayctl_keeper/slurm/doctor/look.py).
const lookWithin = "within"

// DoctorOrders are the orders with which doctor looks at one node that it has a step on: the cluster's own, but what a container would run is RoleLook. Pyxis is a part of
// srun: its container needs a step beside that step.
func (p Plan) DoctorOrders() *keeper.Orders {
	o := p.Orders()
	o.Start.Argv = nil
	if slurmspec.Of(p.Spec).ContainerRuntime == "pyxis" {
		o.Start.Argv = []string{"srun", "--quiet", "--overlap", "--nodelist", nodeVariable, "--nodes=1", "--ntasks=1", "--mpi=none", "--cpu-bind=none", "--export=ALL", "--input=none"}
	}
	o.Start.Command = p.onNode(RoleLook, runDirVariable, lookWithin)
	return o
}

// OneOf are srun's options for one node as the job has it for a group.
func (p Plan) OneOf(g spec.NodeGroup) []string {
	r := p.request(g)
	out := append(p.Size(Component{Request: r, Nodes: 1}), "--ntasks=1")
	if r.GPUs != "" {
		out = append(out, "--gpus-per-node="+r.GPUs)
	}
	if r.Whole {
		out = append(out, "--exclusive")
	}
	return out
}

// OneInside are srun's options for one node of somebody else's allocation, on the node of this name.
func (p Plan) OneInside(g spec.NodeGroup, node string) []string {
	r := p.request(g)
	out := []string{"--overlap", "--nodelist=" + node, "--nodes=1", "--ntasks=1"}
	if r.CPUs > 0 {
		out = append(out, fmt.Sprintf("--cpus-per-task=%d", r.CPUs))
	}
	if r.GPUs != "" {
		out = append(out, "--gpus-per-node="+r.GPUs)
	}
	return out
}

// ConstraintOf is what a group asks of nodes' features, its type of GPU included.
func (p Plan) ConstraintOf(g spec.NodeGroup) string { return p.request(g).Constraint }
