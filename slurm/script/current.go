package script

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Inside is the argument of RoleBatch for a cluster in an existing allocation: only steps of the job belong to the cluster.
const Inside = "inside"

// KeeperStep and nodesStep are the names of the steps of a cluster that is inside somebody else's allocation. Nothing else has the launch's nonce.
func KeeperStep(nonce string) string { return "rayctl-" + nonce }

func nodesStep(nonce string) string { return "ray-" + nonce }

// IsStepOf reports whether a step is one of this launch.
func IsStepOf(name, nonce string) bool { return name == KeeperStep(nonce) || name == nodesStep(nonce) }

// nodeVariable is the argument in whose place the keeper puts its node's name.
const nodeVariable = "$SLURMD_NODENAME"

// inside are srun's further arguments for the nodes of a cluster in somebody else's allocation. Its steps overlap: others may hold what the allocation has. The
// head is on the keeper's node, which is the allocation's first. (srun's --relative=0 is not: Slurm 24.11 takes the node with the fewest steps.)
func (p Plan) inside() []string {
	c, nodes := p.Components()[0], p.nodesInside()
	argv := []string{"--overlap", "--nodelist", nodeVariable, fmt.Sprintf("--nodes=%d", nodes), fmt.Sprintf("--ntasks=%d", c.Nodes)}
	if nodes == c.Nodes {
		argv = append(argv, "--ntasks-per-node=1")
	}
	if c.Request.CPUs > 0 {
		argv = append(argv, fmt.Sprintf("--cpus-per-task=%d", c.Request.CPUs))
	}
	if c.Request.GPUs != "" {
		argv = append(argv, "--gpus-per-node="+c.Request.GPUs)
	}
	return argv
}

// nodesInside is on how many of the allocation's nodes the workers are: on one each, if there are enough.
func (p Plan) nodesInside() int {
	workers := p.Components()[0].Nodes
	if p.AllocationNodes > 0 {
		return min(p.AllocationNodes, workers)
	}
	return workers
}

// Room returns the number of Ray nodes for which the allocation has room, and the number that the plan needs. cpus has the format of
// SLURM_JOB_CPUS_PER_NODE, "4(x2),2"; "" if it is unknown.
func (p Plan) Room(cpus string) (room, wanted int) {
	c := p.Components()[0]
	each, alone := max(1, c.Request.CPUs), c.Nodes <= p.AllocationNodes || c.Request.GPUs != ""
	if cpus == "" {
		cpus = fmt.Sprintf("%d(x%d)", each, p.AllocationNodes)
	}
	for part := range strings.SplitSeq(cpus, ",") {
		count, times, _ := strings.Cut(part, "(x")
		n, _ := strconv.Atoi(count)
		many, err := strconv.Atoi(strings.TrimSuffix(times, ")"))
		if err != nil {
			many = 1
		}
		fit := n / each
		if alone {
			fit = min(fit, 1)
		}
		room += fit * many
	}
	return room, c.Nodes
}

// insideArgument is Inside in the batch script of such a plan.
func (p Plan) insideArgument() string {
	if p.isInside() {
		return " " + Inside
	}
	return ""
}

// isInside reports whether the plan is for somebody else's allocation.
func (p Plan) isInside() bool { return slurmspec.InCurrent(p.Spec) }
