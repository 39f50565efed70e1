package batchjob

import (
	"context"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// Over reports whether the cluster has ended and holds nothing. It writes the result of one that ended without, so only commands that may write call it.
func (b *Job) Over(ctx context.Context) (bool, error) {
	over, _, err := b.OverOr(ctx, time.Second)
	return over, err
}

// OverOr also returns the job of a cluster that has not ended, by an answer at most age old.
func (b *Job) OverOr(ctx context.Context, age time.Duration) (bool, controller.Job, error) {
	e, err := b.Outcome(ctx, age)
	switch {
	case err != nil || !e.Over || b.Record == nil:
		return e.Over, e.Job, err
	case b.Result == nil:
		return true, e.Job, b.writeResult(ctx, *e.Verdict)
	case e.Verdict != nil:
		return true, e.Job, b.overrule(ctx, *e.Verdict)
	default:
		return true, e.Job, b.cleanUp(ctx)
	}
}

// Outcome is whether and how a cluster has ended.
type Outcome struct {
	Over bool           // it holds nothing; its record may be removed, too
	Job  controller.Job // of one that has not ended
	// verdict is on a cluster that has ended without a result, or that is to overrule its result. nil: the result is as the keeper wrote it.
	Verdict *runstate.Verdict
}

// Outcome changes nothing. Where the controller has no such job, it is queried again for BelieveAfter.
func (b *Job) Outcome(ctx context.Context, age time.Duration) (e Outcome, err error) {
	began := time.Now()
	for {
		var f Fate
		f, e.Job, err = b.Ask(ctx, age)
		switch {
		case err != nil && b.Result != nil && b.ResultAge > time.Hour:
			e.Over = true
			return e, nil // the result is old enough: the controller's answer would change nothing
		case err != nil:
			return e, b.Site.Unreachable(err)
		case f == Alive:
			return e, nil
		case b.Result != nil:
			e.Over, e.Verdict = true, b.Overruling(ctx, e.Job)
			return e, nil
		case f == Gone || time.Since(began) > BelieveAfter:
			e.Over, e.Verdict = true, ptr.To(b.VerdictOn(ctx, f, e.Job))
			return e, nil
		}
		sleep.For(ctx, AskAgain)
		if err := ctx.Err(); err != nil {
			return e, err
		}
		if err := b.Look(ctx); err != nil {
			return e, err
		}
		if b.Record == nil {
			e.Over = true
			return e, nil
		}
	}
}

// VerdictOn a cluster without a result, whose job has ended or is not known any more.
func (b *Job) VerdictOn(ctx context.Context, f Fate, j controller.Job) runstate.Verdict {
	if f == Gone || b.Inside() {
		return b.Verdict(ctx, j)
	}
	return runstate.Verdict{Cause: runstate.CauseLost, Message: "Slurm does not know its job any more"}
}

// Overruling is the verdict on a cluster whose keeper has written its result, and whose job has ended, where Slurm's record of why it ended is more precise. nil: the
// keeper's result stands.
func (b *Job) Overruling(ctx context.Context, j controller.Job) *runstate.Verdict {
	e := b.Result.Exit
	switch j.State {
	case controller.StateCancelled, controller.StateTimeout, controller.StatePreempted, controller.StateNodeFail:
		if e != nil && e.Cause == runstate.CauseInterrupted && runstate.BySignal(e.Message) {
			return ptr.To(b.fateOf(ctx, j))
		}
	}
	return nil
}

// Final is the last state of a cluster that has ended, as it will stand in its record.
func (b *Job) Final(v *runstate.Verdict) *runstate.State {
	switch {
	case b.Result == nil:
		return b.Concluded(*v)
	case v != nil:
		runstate.Overrule(b.Result, *v)
	}
	return b.Result
}

// overrule ends a cluster that was between two attempts: the result of the last one gets another cause.
func (b *Job) overrule(ctx context.Context, v runstate.Verdict) error {
	if err := b.Overrule(ctx, v); err != nil {
		return err
	}
	return b.cleanUp(ctx)
}

// Conclude ends a cluster that has ended without a result, or whose waiting job was cancelled.
func (b *Job) Conclude(ctx context.Context, v runstate.Verdict) error {
	if b.Result != nil {
		return b.overrule(ctx, v)
	}
	return b.writeResult(ctx, v)
}

// writeResult writes the result in a dead keeper's place. If the keeper, or another client, was faster, theirs stays.
func (b *Job) writeResult(ctx context.Context, v runstate.Verdict) error {
	if err := b.WriteResult(ctx, b.Concluded(v)); err != nil {
		return err
	}
	return b.cleanUp(ctx)
}

// cleanUp removes what must not outlive the cluster, where its keeper could not, and closes the ways into it.
func (b *Job) cleanUp(ctx context.Context) error {
	if err := b.CleanUp(ctx); err != nil {
		return err
	}
	b.Tunnels.Drop(b.Name)
	b.cancelCompanions(ctx)
	return nil
}

// cancelCompanions cancels what still waits of the jobs for other nodes, where the keeper was killed together with its job. If it fails they end when
// they start.
func (b *Job) cancelCompanions(ctx context.Context) {
	if !script.HasCompanions(b.Record.Spec) {
		return
	}
	jobs, err := b.Site.Queue.Ask(ctx, time.Second)
	if err != nil {
		return
	}
	for _, j := range jobs {
		if j.Name == script.CompanionName(b.Record.Spec, b.Record.Nonce) && !j.Ended() {
			_ = b.Cancel(ctx, j.ID, false)
		}
	}
}

// Concluded is the last state of a cluster whose keeper is dead. The length of its output is not in it.
func (b *Job) Concluded(v runstate.Verdict) *runstate.State {
	st := b.State
	if st == nil {
		st = FirstState(b.Record)
	}
	v.At = b.endedAt()
	return runstate.Conclude(st, v)
}

// endedAt is when a cluster ended whose keeper is dead: when Slurm released its nodes, as far as that is known.
func (b *Job) endedAt() time.Time {
	at := time.Now().UTC()
	if released := b.Released; !released.IsZero() && released.Before(at) {
		at = released
	}
	return at
}
