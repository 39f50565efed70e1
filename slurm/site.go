package slurm

import (
	"context"
	"errors"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
)

// site is one Slurm cluster as this user reaches it: its controller, commands and files.
type site struct {
	controller.Controller
	runner remote.Runner
	files  *remote.Files
}

// unreachable is the error of a controller that does not answer.
func (s *site) unreachable(err error) error {
	var known *launcher.ExitError
	if errors.As(err, &known) {
		return err
	}
	return launcher.Fail(runstate.CodeUnreachable, err, "try again when it answers; `rayctl doctor` looks closer", "Slurm does not answer on %s: %v", s.Controller, err)
}

// run runs one of Slurm's commands.
func (s *site) run(ctx context.Context, argv ...string) (string, error) {
	return controller.Run(ctx, s.runner, argv...)
}
