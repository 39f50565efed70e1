package slurm

import (
	"context"
	"errors"

	"github.com/rayctl/rayctl/launcher"
)

// Reconcile does the work of dead keepers and clients, see launcher.Launcher. It writes the result of runs whose keeper is dead. It cancels jobs that wait in vain: no
// attempt may follow, Slurm can never start them, or lifetime.queue has passed. It removes launches whose client died before the commit, and records older than
// lifetime.keep. A run that it cannot read stays as it is, and is in the error. Each launch calls it in the background.
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

// repair is the work that one run needs, and a description of it.
type repair struct {
	launcher.Collected
	do func(context.Context) error
}

// due returns the repair that a run needs; nil if it needs none, or if the directory is not a run's.
func (l *Launcher) due(ctx context.Context, name string) (*repair, error) {
	c, err := l.cluster(ctx, name)
	if err != nil {
		return nil, nil // not the directory of a run
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
