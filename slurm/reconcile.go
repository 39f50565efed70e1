package slurm

import (
	"context"
	"errors"

	"github.com/rayctl/rayctl/launcher"
)

// Reconcile does what nobody is left to do, see launcher.Launcher: it concludes the runs of dead keepers, withdraws jobs that wait in vain (no attempt may follow, Slurm can never
// start them, lifetime.queue has passed), and removes launches whose client died and records whose time is over. What it cannot read it leaves alone, and names.
// A launch does the same in the background.
func (l *Launcher) Reconcile(ctx context.Context, s launcher.Scope) ([]launcher.Collected, error) {
	names, err := l.site.Runs.Names(ctx)
	if err != nil {
		return nil, err
	}
	var out []launcher.Collected
	var failures []error
	for _, name := range names {
		if name == string(s.Beside) {
			continue
		}
		due, err := l.due(ctx, name)
		if err == nil && due != nil {
			out = append(out, due.Collected)
			if !s.DryRun {
				err = due.do(ctx)
			}
		}
		failures = append(failures, err)
	}
	return out, errors.Join(failures...)
}

// repair is what is to be done for one run.
type repair struct {
	launcher.Collected
	do func(context.Context) error
}

// due is the repair of a run; nil if it needs none, or is no run of ours.
func (l *Launcher) due(ctx context.Context, name string) (*repair, error) {
	c, err := l.cluster(ctx, name)
	if err != nil {
		return nil, nil // not ours
	}
	if err := c.run.Read(ctx); err != nil || c.run.Record == nil {
		return nil, err
	}
	found := func(what, why string, do func(context.Context) error) (*repair, error) {
		return &repair{launcher.Collected{What: what, Name: name, Why: why}, do}, nil
	}
	if !c.run.Committed {
		if c.run.Abandoned() {
			return found("run directory", "its client died before the launch was committed", c.abandon)
		}
		return nil, nil
	}
	f, j, err := c.askController(ctx, listAge)
	if err != nil {
		return nil, l.site.Unreachable(err)
	}
	switch {
	case f == fateAlive:
		v, err := c.verdictOnWaiting(ctx, j)
		if v == nil {
			return nil, l.site.Runs.Unreachable(err)
		}
		return found("waiting job", v.Message, func(ctx context.Context) error { return c.withdraw(ctx, *v) })
	case c.run.Result != nil && c.run.Expired():
		return found("run directory", "lifetime.keep has passed", c.run.Remove)
	case c.run.Result == nil && f == fateGone:
		v := c.verdict(ctx, f, j)
		return found("leftovers", v.Message, func(ctx context.Context) error { return c.conclude(ctx, &v) })
	}
	return nil, nil
}
