package site

import (
	"cmp"
	"context"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// federation is the federation that the site's cluster is in. If Slurm does not answer it is taken for none: the id of a job shows whether that is wrong.
func (site *Site) federation(ctx context.Context) controller.Federation {
	f, err := site.Federation(ctx)
	if err != nil {
		site.Log.Debug("it is not known whether the cluster is in a federation", "error", err)
		return controller.Federation{}
	}
	return f
}

// checkFederation reports in which cluster of a federation jobs stay.
func checkFederation(f controller.Federation) []launcher.Check {
	if f.Name == "" {
		return nil
	}
	detail := f.Self + " is in the federation " + f.Name
	if len(f.Siblings) > 0 {
		detail += " with " + strings.Join(f.Siblings, ", ")
	}
	return []launcher.Check{check("federation", detail+"; jobs stay in "+f.Self+", slurm.cluster names another cluster", nil, "")}
}

// Stays refuses a job that a federation may start in any of its clusters: the run's directory need not be there, and no other job of the run is.
func (site *Site) Stays(p script.Plan, id int) error {
	if cmp.Or(p.Cluster, slurmspec.Of(p.Spec).Cluster) != "" || !controller.IsFederated(id) {
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, nil, "set slurm.cluster to the cluster that has slurm.dir, with slurm.transport ssh or local: slurmrestd cannot be given it",
		"Slurm at %s is in a federation, and could start %s in any of its clusters", site, p.Spec.Name)
}
