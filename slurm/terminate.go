package slurm

import (
	"context"
	"errors"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// Terminate ends the cluster through its keeper, or through Slurm if there is no keeper or it hangs.
func (l *Launcher) Terminate(ctx context.Context, id launcher.ID, end launcher.End) error {
	c, err := l.open(ctx, id)
	if errors.Is(err, launcher.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if !c.run.Committed {
		return c.terminateUncommitted(ctx)
	}
	asked, began, looked := false, time.Now(), time.Time{}
	limit := began.Add(c.patience(end))
	for ctx.Err() == nil {
		var j controller.Job
		age := min(max(lookEvery, time.Since(began)/4), askAgain)           // Slurm is asked less and less often
		if c.run.Result != nil || !asked || time.Since(looked) > askAgain { // otherwise the keeper reports the end
			ended, job, err := c.concludeIfEnded(ctx, age)
			if ended || err != nil {
				return err
			}
			j, looked = job, time.Now()
		}
		switch {
		case end.IfWaiting && j.State == controller.StateRunning: // it has begun after all
			return nil
		case time.Now().After(limit):
			if err := c.force(ctx); err != nil {
				return err
			}
			limit = time.Now().Add(script.EndSlack)
		case j.State == controller.StatePending:
			if err := c.cancelWaiting(ctx, end); err != nil {
				return err
			}
		case c.run.Result != nil, c.run.State == nil, c.run.State.Keeper.URL == "": // its nodes are about to be free, or its keeper to be there; patience is bounded
		case !asked && !end.IfWaiting:
			asked = c.askKeeper(ctx, end)
		}
		sleep.For(ctx, lookEvery)
		if err := c.run.Read(ctx); err != nil {
			return err
		}
		if c.run.Record == nil {
			return nil
		}
	}
	return launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "repeat `rayctl down "+c.run.Name+"`", "interrupted while ending %s", c.run.Name)
}

// patience is how long the keeper may take.
func (c *cluster) patience(end launcher.End) time.Duration {
	if end.Now || c.run.Record.Spec.Job.Grace == nil {
		return script.EndSlack
	}
	return script.EndSlack + time.Duration(*c.run.Record.Spec.Job.Grace)
}

// terminateUncommitted ends a launch whose client died. If the client is still alive, it commits or ends the launch itself. In both cases the
// job, if there is one, is cancelled; a commit after that belongs to a cluster that has ended.
func (c *cluster) terminateUncommitted(ctx context.Context) error {
	if c.inside() {
		return c.terminateInside(ctx)
	}
	jobs, err := c.l.site.Queue.Ask(ctx, controller.Fresh)
	if err != nil {
		return c.l.site.Unreachable(err)
	}
	if j, ok := c.findJob(jobs); ok && !j.Ended() {
		if err := c.cancel(ctx, j.Leader(), false); err != nil {
			return err
		}
	}
	if c.run.Age > orders.Lease {
		return c.run.Remove(ctx)
	}
	return nil
}

// terminateInside is terminateUncommitted for a launch into somebody else's allocation.
func (c *cluster) terminateInside(ctx context.Context) error {
	if err := c.cancel(ctx, 0, false); err != nil {
		return c.l.site.Unreachable(err)
	}
	if c.run.Age > orders.Lease {
		return c.run.Remove(ctx)
	}
	return nil
}

// cancelWaiting cancels a job that has not begun, or waits for its next attempt. Slurm's answer shows whether it was still waiting.
func (c *cluster) cancelWaiting(ctx context.Context, end launcher.End) error {
	message := end.Message
	if message == "" {
		message = "the cluster was ended before it began"
	}
	return c.withdraw(ctx, runstate.Verdict{Cause: end.Cause, Message: message, Final: end.Final})
}

// askKeeper hands the end to the keeper; false if it does not answer.
func (c *cluster) askKeeper(ctx context.Context, end launcher.End) bool {
	ctx, cancel := context.WithTimeout(ctx, script.EndSlack)
	defer cancel()
	err := launcher.AskKeeper(ctx, c.l, c.run.ID(), func(k *keeper.Client) error {
		_, err := k.End(ctx, keeper.End{Cause: end.Cause, Message: end.Message, By: c.run.Record.Owner, Now: end.Now})
		return err
	})
	if err != nil {
		c.l.log.Debug("the keeper does not answer", "cluster", c.run.Name, "error", err)
	}
	return err == nil
}

// force ends the job without its keeper.
func (c *cluster) force(ctx context.Context) error {
	c.l.log.Warn("the keeper does not end the cluster: cancelling its job or its steps", "cluster", c.run.Name, "job", c.run.JobID)
	if err := c.cancel(ctx, c.run.JobID, false); err != nil {
		return c.l.site.Unreachable(err)
	}
	return nil
}

// Forget removes the record of an ended cluster. The driver's output directory stays if anything is in it.
func (l *Launcher) Forget(ctx context.Context, id launcher.ID) error {
	c, err := l.open(ctx, id)
	if errors.Is(err, launcher.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if c.run.Committed {
		if ended, _, err := c.concludeIfEnded(ctx, time.Second); err != nil {
			return err
		} else if !ended {
			return launcher.NotEnded(c.run.ID())
		}
	} else if !c.run.Abandoned() {
		return launcher.NotEnded(c.run.ID())
	}
	return c.run.Remove(ctx)
}
