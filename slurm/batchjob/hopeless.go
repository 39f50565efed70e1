package batchjob

import (
	"context"
	"errors"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// Hopeless is the verdict on a waiting job that must be cancelled: no attempt is left, Slurm can never start it, or lifetime.queue has passed. Slurm itself
// gives up only what it has a --deadline for (script.Plan.Deadline). nil: the job need not be given up, or the error keeps that from being known.
func (b *Job) Hopeless(ctx context.Context, j controller.Job) (*runstate.Verdict, error) {
	if j.State != controller.StatePending {
		return nil, nil
	}
	last, err := b.LastAttempt(ctx, j)
	if last != nil {
		return last, nil
	}
	why, unknown := b.never(ctx, j)
	if why != "" {
		v := cannotStart(why)
		return &v, nil
	}
	limit, bound := b.Record.Spec.Lifetime.Queue.Bound()
	if bound && time.Since(b.Record.Created) > limit && b.LastWord() == nil {
		return &runstate.Verdict{Cause: runstate.CauseQueue, Message: "the cluster was not admitted within lifetime.queue (" + limit.String() + "): " + controller.Explain(j).Message}, nil
	}
	return nil, errors.Join(err, unknown)
}

// cannotStart is the verdict on a job that Slurm can never start.
func cannotStart(why string) runstate.Verdict {
	return runstate.Verdict{Final: true, Cause: runstate.CauseStartFailed, Message: "Slurm can never start its job: " + why}
}

// never returns why the job can never start; "" if it can, or if that is unknown.
func (b *Job) never(ctx context.Context, j controller.Job) (string, error) {
	switch {
	case controller.Never(j.Reason):
		return controller.Explain(j).Message, nil
	case controller.NodeLimit(j.Reason):
		all, err := b.Site.Partitions(ctx)
		if err != nil {
			return "", err
		}
		return script.PlanOf(b.Run, 0).TooLarge(j.HetOffset, j.Partition, all), nil
	}
	return "", nil
}
