// Package site has what one user can do on a Slurm cluster: it calls the controller and Slurm's commands, finds the run directories, explains Slurm's refusals, and
// makes the checks of `rayctl doctor`.
package site

import (
	"context"
	"errors"
	"log/slog"
	"path"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Site is one Slurm cluster, with the controller, the commands and the run directories that this user can reach.
type Site struct {
	controller.Controller
	Queue  *controller.Queue // the controller's last answers, which all clusters share
	Runner remote.Runner     // runs Slurm's commands
	Runs   *rundir.Root
	Log    *slog.Logger
	Getenv func(string) string // has Slurm's variables if rayctl runs inside an allocation
}

// Unreachable is the error of a controller that does not answer.
func (site *Site) Unreachable(err error) error {
	var known *launcher.ExitError
	if errors.As(err, &known) {
		return err
	}
	return launcher.Fail(runstate.CodeUnreachable, err, "try again when it answers; `rayctl doctor` shows details", "Slurm does not answer on %s: %v", site.Controller, err)
}

// run runs one of Slurm's commands.
func (site *Site) run(ctx context.Context, argv ...string) (string, error) {
	return controller.Run(ctx, site.Runner, argv...)
}

// Python is the path of the interpreter on the nodes, from ray.python, which may name a virtual environment.
func (site *Site) Python(ctx context.Context, s *spec.ClusterSpec) (string, error) {
	python := s.Ray.Python
	if python == "" {
		return "python3", nil
	}
	if slurmspec.InContainer(s) {
		return python, nil // a path in the container
	}
	kind, err := site.Runs.Files.Kind(ctx, python)
	if err != nil {
		return "", site.Runs.Unreachable(err)
	}
	if kind == "directory" {
		return path.Join(python, "bin", "python"), nil
	}
	return python, nil
}

// Fitted returns the plan with a time limit that the partitions allow, and with jobs that stay on one cluster of a federation. If Slurm does not answer, it leaves the
// time limit unchanged: Slurm then accepts or refuses it.
func (site *Site) Fitted(ctx context.Context, p script.Plan) script.Plan {
	if !slurmspec.InCurrent(p.Spec) {
		p.Cluster = site.federation(ctx).Self
	}
	if _, bound := p.Spec.Lifetime.Max.Bound(); !bound && !p.Spec.IsElastic() {
		return p
	}
	all, err := site.Partitions(ctx)
	if err != nil {
		site.Log.Debug("it is not known how long jobs may run", "error", err)
		return p
	}
	return p.Within(all)
}
