package tunnels

import (
	"strconv"

	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// overlap returns the beginning of an srun command for a step on one node of the job. The step overlaps Ray's and takes no resources from it.
func overlap(run *rundir.Run, node string) []string {
	argv := []string{"srun", "--quiet", "--overlap", "--jobid=" + strconv.Itoa(run.Current.Job), "--nodelist=" + node, "--nodes=1", "--ntasks=1",
		"--mpi=none", "--cpu-bind=none", "--export=ALL", "--chdir=/", "--job-name=rayctl"}
	if run.Record != nil && run.Record.Spec != nil {
		argv = append(argv, controller.OfCluster(slurmspec.Of(run.Record.Spec).Cluster)...)
	}
	if len(script.PlanOf(run, 0).Components()) > 1 {
		argv = append(argv, "--het-group="+componentOf(run, node))
	}
	return remote.CleanStep(argv...)
}

// componentOf is the part of a heterogeneous job that a node belongs to.
func componentOf(run *rundir.Run, node string) string {
	if run.State == nil {
		return "0"
	}
	for _, n := range run.State.Nodes {
		if n.Host != node {
			continue
		}
		at := 0
		for i, part := range script.PlanOf(run, 0).Components() {
			for range part.Nodes {
				if at < len(run.State.Nodes) && run.State.Nodes[at].Name == n.Name {
					return strconv.Itoa(i)
				}
				at++
			}
		}
	}
	return "0"
}
