package onemachine

import (
	"context"
	"errors"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// endSlack is how much longer than the driver's grace an end may take. After that the keeper counts as stuck.
const endSlack = time.Minute

// Terminate asks the keeper to end the cluster. If the keeper is dead or stuck, Terminate ends the cluster itself.
func (l *Launcher) Terminate(ctx context.Context, id launcher.ID, end launcher.End) error {
	c, err := l.open(id)
	if errors.Is(err, launcher.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		how, st, err := c.run.Life()
		switch {
		case err != nil:
			return err
		case how == missing:
			return nil
		case how == elsewhere:
			return c.notHere()
		case how == ended:
			return c.sweep(ctx)
		case how == orphaned:
			err = c.conclude(ctx, lost())
		case how == beginning && l.nobodyLaunches(c.run.Name):
			err = c.conclude(ctx, lost())
		case how == beginning || st.Keeper.URL == "":
			sleep.For(ctx, lookEvery)
		default:
			err = c.end(ctx, st, end)
		}
		if err != nil {
			return err
		}
	}
	return interrupted(ctx, c.run.Name)
}

// end sends the request to end to the keeper and waits until the cluster has ended.
func (c *cluster) end(ctx context.Context, st *runstate.State, end launcher.End) error {
	client, err := c.client(st)
	if err != nil {
		sleep.For(ctx, lookEvery) // the cluster is ending at this moment: its token has been removed
		return nil
	}
	defer client.Close()
	ask := keeper.End{Cause: end.Cause, Message: end.Message, By: c.l.owner, Now: end.Now}
	if _, err := client.End(ctx, ask); err != nil {
		return c.force(ctx, end, "the keeper does not answer: "+err.Error())
	}
	limit := endSlack
	if !end.Now && c.run.Record.Spec.Job.Grace != nil {
		limit += time.Duration(*c.run.Record.Spec.Job.Grace)
	}
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for _, err := range client.Watch(wait) {
		if err != nil { // it has ended, or hangs
			break
		}
	}
	for wait.Err() == nil {
		if how, _, err := c.run.Life(); err != nil || how != living {
			return err
		}
		sleep.For(wait, lookEvery)
	}
	return c.force(ctx, end, "the keeper did not end in time")
}

// force ends the cluster without its keeper, if the cluster still exists. The supervisors outlive the keeper: they end Ray, and save what is not saved yet of the
// output of the driver and of submitted jobs.
func (c *cluster) force(ctx context.Context, end launcher.End, why string) error {
	if ctx.Err() != nil {
		return interrupted(ctx, c.run.Name)
	}
	how, st, err := c.run.Life()
	if err != nil || how != living {
		return err
	}
	c.l.log.Warn("killing the keeper", "cluster", c.run.Name, "reason", why)
	if err := c.killKeeper(ctx, st); err != nil {
		return err
	}
	message := why + "; it was killed"
	if end.Message != "" {
		message = end.Message + " (" + message + ")"
	}
	return c.conclude(ctx, runstate.Verdict{Cause: end.Cause, Message: message})
}

// Forget removes the record of an ended cluster. The driver's output directory stays if anything is in it.
func (l *Launcher) Forget(ctx context.Context, id launcher.ID) error {
	c, err := l.open(id)
	if errors.Is(err, launcher.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	lock, err := l.lock(ctx, c.run.Name)
	if err != nil {
		return err
	}
	defer lock.Release()
	if err := c.concludeLocked(ctx, lost()); err != nil {
		return err
	}
	switch how, _, err := c.run.Life(); {
	case err != nil:
		return err
	case how == elsewhere:
		return c.notHere()
	case how == living:
		return launcher.NotEnded(c.run.ID())
	}
	if err := c.sweep(ctx); err != nil {
		return err
	}
	return c.run.Remove()
}
