package onemachine

import (
	"context"
	"errors"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/local/proc"
)

// Reconcile ends what is left of killed keepers and dead clients, and removes old records and environments, see launcher.Launcher. Beside a launch it
// deals only with clusters of which nothing but files is left. A cluster that another rayctl works on is left alone.
func (l *Launcher) Reconcile(ctx context.Context, s launcher.Scope) ([]launcher.Collected, error) {
	if s.Beside != "" {
		return l.reconcileFiles(ctx, s.DryRun)
	}
	return l.collect(ctx, s.DryRun)
}

// reconcileFiles removes records that were kept long enough and launches that died before the commit, and gives clusters of which only the files are left
// their results. `rayctl ls` shows the same before and after.
func (l *Launcher) reconcileFiles(ctx context.Context, dryRun bool) ([]launcher.Collected, error) {
	var out []launcher.Collected
	var failures []error
	for _, name := range l.names() {
		_, why := l.prunable(name)
		if _, _, dead := l.leftBehind(name); dead {
			why = "its keeper or client was killed"
		}
		if why == "" {
			continue
		}
		out = append(out, launcher.Collected{What: "run directory", Name: name, Why: why})
		if !dryRun {
			failures = append(failures, l.repair(ctx, name))
		}
	}
	return out, errors.Join(failures...)
}

// repair looks again under the lock of the name, unless somebody has it.
func (l *Launcher) repair(ctx context.Context, name string) error {
	lock, err := sharedfile.Try(l.lockPath(name))
	if err != nil || lock == nil {
		return err
	}
	defer lock.Release()
	if c, _, dead := l.leftBehind(name); dead {
		return c.concludeHeld(ctx)
	}
	c, why := l.prunable(name)
	if why == "" {
		return nil
	}
	if err := c.run.Remove(); err != nil {
		return err
	}
	lock.Remove()
	return nil
}

// leftBehind finds a cluster of which no process lives, not even its keeper, and which has no result yet; st is the last that its keeper wrote.
func (l *Launcher) leftBehind(name string) (c *cluster, st *runstate.State, dead bool) {
	c, err := l.open(launcher.ID(name))
	if err != nil {
		return nil, nil, false
	}
	how, st, err := c.run.Life()
	if err != nil || how != orphaned {
		return c, st, false
	}
	left, err := proc.Marked(c.run.Markers()...)
	return c, st, err == nil && len(left) == 0
}

// prunable is the reason for which a record may be removed; "" if there is none.
func (l *Launcher) prunable(name string) (*cluster, string) {
	c, err := l.open(launcher.ID(name))
	if err != nil {
		return nil, ""
	}
	if how, _, err := c.run.Life(); err != nil || how != ended {
		return c, ""
	}
	switch {
	case !c.run.Files.Committed():
		return c, "its client died before the launch was committed"
	case time.Now().After(c.run.KeptUntil()):
		return c, "lifetime.keep has passed"
	}
	return c, ""
}

// overdue reports whether a record is only there until somebody removes it.
func (l *Launcher) overdue(name string) bool {
	_, why := l.prunable(name)
	return why != ""
}
