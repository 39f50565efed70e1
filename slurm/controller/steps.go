package controller

import (
	"context"
	"errors"
	"strings"
)

// Step is a step of a job that runs.
type Step struct {
	ID   string // 12.0
	Name string
}

// ErrNoSteps is the error of a controller that does not list steps.
var ErrNoSteps = errors.New("this controller does not list steps")

// Steps implements Controller.
func (c Commands) Steps(ctx context.Context) (steps []Step, err error) {
	out, err := Run(ctx, c.Runner, c.clean("squeue", "--me", "--all", "--noheader", "--steps", "--format=%i|%j")...)
	for line := range strings.Lines(out) {
		if id, name, found := strings.Cut(strings.TrimSpace(line), "|"); found {
			steps = append(steps, Step{ID: id, Name: name})
		}
	}
	return steps, err
}

// CancelSteps implements Controller.
func (c Commands) CancelSteps(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := Run(ctx, c.Runner, c.clean("scancel", ids...)...)
	if err != nil && strings.Contains(err.Error(), "Invalid job id") {
		return nil
	}
	return err
}

// Steps implements Controller: slurmrestd's list of jobs has none.
func (r *REST) Steps(context.Context) ([]Step, error) { return nil, ErrNoSteps }

// CancelSteps implements Controller: slurmrestd cannot.
func (r *REST) CancelSteps(context.Context, []string) error { return ErrNoSteps }
