package batchjob

import (
	"context"
	"fmt"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/controller/queue"
	"github.com/rayctl/rayctl/slurm/script"
)

// presumeAfter is for how long a shared file system may keep from us what the nodes have written: attributes are cached for up to a minute (nfs(5), acdirmax).
const presumeAfter = time.Minute

// LastAttempt is the verdict on a job that Slurm has queued again although job.restarts allows no further attempt. nil: one is allowed, or the cause is not
// certain yet. The job itself would end when it starts, which may take days.
func (b *Job) LastAttempt(ctx context.Context, j controller.Job) (*runstate.Verdict, error) {
	if b.LastWord() == nil || j.State != controller.StatePending {
		return nil, nil
	}
	a, err := b.Another(ctx)
	if err != nil || a.Allowed || !a.Told && time.Since(j.Submit) < presumeAfter {
		return nil, err
	}
	return &runstate.Verdict{Cause: a.Cause, Message: a.Message}, nil
}

// Withdraw cancels a waiting job and concludes its cluster, unless it has begun after all: then its keeper writes the result.
func (b *Job) Withdraw(ctx context.Context, v runstate.Verdict) error {
	b.NoteWithdrawn(ctx, v)
	if err := b.Cancel(ctx, b.JobID, true); err != nil {
		return b.Site.Unreachable(err)
	}
	f, j, err := b.askReleased(ctx)
	if err != nil || f != Gone || j.State != controller.StateCancelled {
		return nil //nolint:nilerr // decided at the next look
	}
	return b.Conclude(ctx, v)
}

// askReleased is the fate of a job that was cancelled while it waited. Where the head's node of a heterogeneous job failed, its other components still ran (Slurm 24.11), and
// Slurm has to end their processes first.
func (b *Job) askReleased(ctx context.Context) (Fate, controller.Job, error) {
	for began := time.Now(); ; {
		f, j, err := b.Ask(ctx, queue.Now)
		if err != nil || f != Alive || !j.Has("COMPLETING") || time.Since(began) > script.EndSlack {
			return f, j, err
		}
		if !sleep.For(ctx, AskAgain) {
			return f, j, ctx.Err()
		}
	}
}

// fateOf is how a cluster ended, by Slurm's word and by the files': a job that waited and was cancelled was so for the reason that is noted, or because
// no other attempt might follow.
func (b *Job) fateOf(ctx context.Context, j controller.Job) runstate.Verdict {
	if b.Inside() {
		return insideVerdict(j)
	}
	v := verdictOf(j)
	if j.State != controller.StateCancelled {
		return v
	}
	if noted := b.Withdrawn(ctx); noted != nil {
		return *noted
	}
	if b.LastWord() == nil {
		return b.cancelledBy(ctx, j, v)
	}
	if a, err := b.Another(ctx); err == nil && a.Cause == runstate.CauseLost && a.Told && !a.Allowed {
		return runstate.Verdict{Cause: a.Cause, Message: a.Message}
	}
	return b.cancelledBy(ctx, j, v)
}

// cancelledBy is the verdict with the name of who cancelled the job, if accounting knows it; else v. slurmrestd has no such request.
func (b *Job) cancelledBy(ctx context.Context, j controller.Job, v runstate.Verdict) runstate.Verdict {
	if accounting, ok := b.Site.Controller.(interface {
		CancelledBy(ctx context.Context, id int) string
	}); ok {
		if name := accounting.CancelledBy(ctx, j.Leader()); name != "" {
			return runstate.Verdict{Cause: runstate.CauseInterrupted, Message: fmt.Sprintf("its job was cancelled by %s", name)}
		}
	}
	return v
}
