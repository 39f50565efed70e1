package slurm

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// withdraw cancels a waiting job and concludes its cluster, unless it has begun after all: then its keeper writes the result.
func (c *cluster) withdraw(ctx context.Context, v runstate.Verdict) error {
	c.run.NoteWithdrawn(ctx, v)
	if err := c.cancel(ctx, c.run.JobID, true); err != nil {
		return c.l.site.Unreachable(err)
	}
	f, j, err := c.askReleased(ctx)
	if err != nil || f != fateGone || j.State != controller.StateCancelled {
		return nil //nolint:nilerr // decided at the next look
	}
	return c.conclude(ctx, &v)
}

// askReleased is the fate of a job that was cancelled while it waited. Where the head's node of a heterogeneous job failed, its other components still ran (Slurm 24.11), and
// Slurm has to end their processes first.
func (c *cluster) askReleased(ctx context.Context) (fate, controller.Job, error) {
	for began := time.Now(); ; {
		f, j, err := c.askController(ctx, controller.Fresh)
		if err != nil || f != fateAlive || !j.Has("COMPLETING") || time.Since(began) > script.EndSlack {
			return f, j, err
		}
		if !sleep.For(ctx, askAgain) {
			return f, j, ctx.Err()
		}
	}
}
