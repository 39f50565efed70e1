package slurm

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// outcome is whether and why a cluster has ended.
type outcome struct {
	ended bool           // it holds nothing; its record may be removed, too
	job   controller.Job // of one that has not ended
	// verdict is why a cluster ended that has no result, or whose result names the wrong cause. nil: the result stands as the keeper wrote it.
	verdict *runstate.Verdict
}

// outcome finds the outcome from an answer of the controller at most age old, and changes nothing. Where the controller has no such job, it is queried again for believeAfter.
func (c *cluster) outcome(ctx context.Context, age time.Duration) (o outcome, err error) {
	began := time.Now()
	for {
		var f fate
		f, o.job, err = c.askController(ctx, age)
		switch {
		case err != nil && c.run.Result != nil && c.run.ResultAge > time.Hour:
			o.ended = true
			return o, nil // the result is old enough: the controller's answer would change nothing
		case err != nil:
			return o, c.l.site.Unreachable(err)
		case f == fateAlive:
			return o, nil
		case c.run.Result != nil:
			o.ended, o.verdict = true, c.verdictOnResult(ctx, o.job)
			return o, nil
		case f == fateGone || time.Since(began) > believeAfter:
			v := c.verdict(ctx, f, o.job)
			o.ended, o.verdict = true, &v
			return o, nil
		}
		sleep.For(ctx, askAgain)
		if err := ctx.Err(); err != nil {
			return o, err
		}
		if err := c.run.Read(ctx); err != nil {
			return o, err
		}
		if c.run.Record == nil {
			o.ended = true
			return o, nil
		}
	}
}

// concludeIfEnded concludes a cluster that has ended and holds nothing, so only commands that may write call it. It also returns the job of one that has not ended,
// by an answer of the controller at most age old.
func (c *cluster) concludeIfEnded(ctx context.Context, age time.Duration) (ended bool, job controller.Job, err error) {
	o, err := c.outcome(ctx, age)
	if err != nil || !o.ended || c.run.Record == nil {
		return o.ended, o.job, err
	}
	return true, o.job, c.conclude(ctx, o.verdict)
}

// conclude writes the result of a cluster that has ended, and removes what must not outlive it. Where the keeper has written a result, a verdict changes its cause, and
// without one it stays. If the keeper, or another client, writes one meanwhile, theirs stays.
func (c *cluster) conclude(ctx context.Context, v *runstate.Verdict) error {
	write := c.run.WriteResult
	if c.run.Result != nil {
		write = c.run.ReplaceResult
	}
	if c.run.Result == nil || v != nil {
		if err := write(ctx, c.concluded(v)); err != nil {
			return err
		}
	}
	return c.cleanUp(ctx)
}

// concluded is the last state of a cluster that has ended, as conclude writes it. Where the keeper has written no result, the length of the output is not in it yet.
func (c *cluster) concluded(v *runstate.Verdict) *runstate.State {
	if c.run.Result != nil {
		if v != nil {
			runstate.Overrule(c.run.Result, *v)
		}
		return c.run.Result
	}
	st := c.run.State
	if st == nil {
		st = firstState(c.run.Record)
	}
	end := *v
	end.At = c.endedAt()
	return runstate.Conclude(st, end)
}

// endedAt is when a cluster ended whose keeper is dead: when Slurm released its nodes, as far as that is known.
func (c *cluster) endedAt() time.Time {
	at := time.Now().UTC()
	if !c.released.IsZero() && c.released.Before(at) {
		at = c.released
	}
	return at
}

// cleanUp removes what must not outlive the cluster, where its keeper could not, and closes the ways into it.
func (c *cluster) cleanUp(ctx context.Context) error {
	if err := c.run.RemoveSecrets(ctx); err != nil {
		return err
	}
	c.l.tunnels.Drop(c.run.Name)
	c.cancelCompanions(ctx)
	return nil
}

// cancelCompanions cancels what still waits of the jobs for other nodes, where the keeper was killed together with its job. If it fails they end when
// they start.
func (c *cluster) cancelCompanions(ctx context.Context) {
	if !script.HasCompanions(c.run.Record.Spec) {
		return
	}
	jobs, err := c.l.site.Queue.Ask(ctx, time.Second)
	if err != nil {
		return
	}
	for _, j := range jobs {
		if c.isCompanion(j) && !j.Ended() {
			_ = c.cancel(ctx, j.ID, false)
		}
	}
}
