package slurm

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/rayctl/rayctl/launcher"
)

// Collect does what nobody is left to do: it concludes the runs of dead keepers, withdraws jobs that Slurm queued again although no attempt may follow,
// and removes launches whose client died and records whose time is over. What it cannot read it leaves alone, and names.
func (l *Launcher) Collect(ctx context.Context, dryRun bool) ([]launcher.Collected, error) {
	return l.collect(ctx, "", dryRun)
}

// collect leaves out one name, that of a cluster that the caller works on.
func (l *Launcher) collect(ctx context.Context, except string, dryRun bool) ([]launcher.Collected, error) {
	dir, _, err := l.arrive(ctx)
	if err != nil {
		return nil, err
	}
	names, err := l.site.files.Names(ctx, path.Join(dir, "runs"))
	if err != nil {
		return nil, l.cut(err)
	}
	var out []launcher.Collected
	var failures []error
	for _, name := range names {
		if name == except {
			continue
		}
		due, err := l.due(ctx, name)
		if err == nil && due != nil {
			out = append(out, due.Collected)
			if !dryRun {
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
	if err := c.look(ctx); err != nil || c.record == nil {
		return nil, err
	}
	found := func(what, why string, do func(context.Context) error) (*repair, error) {
		return &repair{launcher.Collected{What: what, Name: name, Why: why}, do}, nil
	}
	if !c.committed {
		if c.abandoned() {
			return found("run directory", "its client died before the launch was committed", c.abandon)
		}
		return nil, nil
	}
	f, j, err := c.ask(ctx, listAge)
	if err != nil {
		return nil, l.site.unreachable(err)
	}
	switch last, err := c.lastAttempt(ctx, j); {
	case err != nil:
		return nil, l.cut(err)
	case f == alive && last != nil:
		return found("waiting job", last.Message+", and no attempt is left", func(ctx context.Context) error { return c.withdraw(ctx, *last) })
	case f == alive:
		return nil, nil
	case c.result != nil && c.expired():
		return found("run directory", "lifetime.keep has passed", c.remove)
	case c.result == nil && f == gone:
		v := c.verdict(ctx, j)
		return found("leftovers", v.Message, func(ctx context.Context) error { return c.writeResult(ctx, v) })
	}
	return nil, nil
}

// reconcileLimit bounds what a launch does for others beside its own work.
const reconcileLimit = time.Minute

// reconcile is Collect beside the launch of a cluster: what fails is tried again by the next launch, or by gc.
func (l *Launcher) reconcile(ctx context.Context, launched string) {
	ctx, cancel := context.WithTimeout(ctx, reconcileLimit)
	defer cancel()
	if done, err := l.collect(ctx, launched, false); len(done) > 0 || err != nil {
		l.log.Debug("looked after earlier runs", "done", fmt.Sprint(done), "error", err)
	}
}
