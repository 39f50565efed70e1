// Package site is a Slurm cluster as one user reaches it: its controller, its commands and the directory of the runs; what its refusals mean, and the
// checks of `rayctl doctor`.
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
	"github.com/rayctl/rayctl/slurm/controller/queue"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Site is one Slurm cluster as this user reaches it: its controller, commands and runs.
type Site struct {
	controller.Controller
	Queue  *queue.Queue  // the controller's answers, shared
	Runner remote.Runner // of Slurm's commands
	Runs   *rundir.Root
	Log    *slog.Logger
	Getenv func(string) string // of the allocation that this command may be in
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

// Python is the interpreter on the nodes: ray.python, which may be a virtual environment.
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

// Fitted is a plan whose time limit fits into the partitions, and whose jobs stay in one cluster of a federation. If Slurm does not answer it is as it was:
// Slurm judges.
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
