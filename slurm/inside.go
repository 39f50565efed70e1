package batchjob

import (
	"context"
	"errors"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Inside reports whether the run's job is somebody else's allocation, which has steps of the run and must not be touched.
func (b *Job) Inside() bool { return b.Record != nil && slurmspec.InCurrent(b.Record.Spec) }

// Cancel ends what the run has of Slurm: its job, or its steps in somebody else's. onlyWaiting: unless it has begun.
func (b *Job) Cancel(ctx context.Context, job int, onlyWaiting bool) error {
	if !b.Inside() {
		return b.Site.Cancel(ctx, job, onlyWaiting)
	}
	if onlyWaiting { // steps do not wait
		return nil
	}
	steps, err := b.steps(ctx)
	if err != nil {
		return err
	}
	return b.Site.CancelSteps(ctx, steps)
}

// steps are the ids of the run's steps that there are.
func (b *Job) steps(ctx context.Context) (ids []string, err error) {
	all, err := b.Site.Steps(ctx)
	for _, s := range all {
		if script.IsStepOf(s.Name, b.Record.Nonce) {
			ids = append(ids, s.ID)
		}
	}
	return ids, err
}

// askInside is Ask for a run inside somebody else's allocation: it is over when its steps are, or the allocation. A controller that has just been restarted may
// not know all steps: that there are none is no certainty.
func (b *Job) askInside(ctx context.Context, age time.Duration) (Fate, controller.Job, error) {
	jobs, err := b.Site.Queue.Ask(ctx, min(age, max(0, time.Since(b.Record.Created))))
	if err != nil {
		return Unknown, controller.Job{}, err
	}
	var j controller.Job
	for _, other := range jobs {
		if other.ID == b.JobID {
			j = other
		}
	}
	switch {
	case j.ID == 0 || j.State == controller.StatePending: // queued again, without our steps
		return Unknown, controller.Job{}, nil
	case j.Ended():
		b.Released = j.Released()
		return Gone, j, nil
	}
	if age == 0 || time.Since(b.stepsAt) > age || b.Result != nil {
		left, err := b.steps(ctx)
		if errors.Is(err, controller.ErrNoSteps) {
			left, err = b.presumed(), nil
		}
		if err != nil {
			return Unknown, j, err
		}
		b.stepsLeft, b.stepsAt = len(left), time.Now()
	}
	if b.stepsLeft == 0 {
		return Unknown, j, nil
	}
	return Alive, j, nil
}

// presumed are the steps if Slurm does not list them: those of a run without a result.
func (b *Job) presumed() []string {
	if b.Result != nil {
		return nil
	}
	return []string{"?"}
}

// insideVerdict is verdictOf for the end of somebody else's allocation, or of the steps in it.
func insideVerdict(j controller.Job) runstate.Verdict {
	switch j.State {
	case "", controller.StatePending, controller.StateRunning:
		return runstate.Verdict{Cause: runstate.CauseLost, Message: "its steps ended without a result"}
	case controller.StateCompleted, controller.StateFailed:
		return runstate.Verdict{Cause: runstate.CauseInterrupted, Message: "the allocation that it was in has ended"}
	}
	return verdictOf(j)
}
