package site

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Around is an allocation that a command is called in.
type Around struct {
	Job   int
	Nodes int
	First string // node
}

// Current is the allocation that this command is called in, which slurm.job: current uses, if the plan fits into it.
func (site *Site) Current(ctx context.Context, p script.Plan) (Around, error) {
	refuse := func(hint, format string, args ...any) (Around, error) {
		return Around{}, launcher.Fail(runstate.CodeSpec, nil, hint, format, args...)
	}
	id, err := strconv.Atoi(site.Getenv(slurmspec.Around))
	if err != nil {
		return refuse("run this command in `salloc` or an sbatch script, or leave slurm.job out", "slurm.job is current, but this command does not run in an allocation (no SLURM_JOB_ID)")
	}
	jobs, err := site.Queue.Ask(ctx, controller.Fresh)
	if err != nil {
		return Around{}, site.Unreachable(err)
	}
	for _, j := range jobs {
		if j.ID != id || j.State != controller.StateRunning {
			continue
		}
		if j.HetJobID != 0 {
			return refuse("leave slurm.job out", "job %d, in which this command runs, is heterogeneous, and slurm.job: current cannot use such a job", id)
		}
		if len(p.Components()) > 1 {
			return refuse("make cpus, memory and gpus of head and workers equal, or leave slurm.job out", "with slurm.job: current the nodes of %s must be alike", p.Spec.Name)
		}
		p.AllocationNodes = j.NodeCount
		if room, wanted := p.Room(site.Getenv("SLURM_JOB_CPUS_PER_NODE")); wanted > room {
			return refuse("ask for fewer workers, or salloc for more", "%s needs %d nodes of %d CPUs, but job %d, in which this command runs, has %d nodes, with room for %d",
				p.Spec.Name, wanted, p.Components()[0].Request.CPUs, id, j.NodeCount, room)
		}
		return site.around(ctx, j)
	}
	return refuse("run this command in a running allocation of yours, or leave slurm.job out", "slurm.job is current, but job %d, which SLURM_JOB_ID names, is not a running job of yours", id)
}

// around also asks for the allocation's first node.
func (site *Site) around(ctx context.Context, j controller.Job) (Around, error) {
	out, err := site.run(ctx, "scontrol", "show", "hostnames", j.NodeList)
	if err != nil {
		return Around{}, site.Unreachable(err)
	}
	first, _, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return Around{Job: j.ID, Nodes: j.NodeCount, First: first}, nil
}

func (a Around) String() string {
	return fmt.Sprintf("job %d, in which this command runs, has room for it", a.Job)
}
