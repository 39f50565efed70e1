package onemachine

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/filelock"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/local/rundir"
)

// reconcile removes records that were kept long enough and launches that died before the commit, and gives clusters of which only the files are left
// their results. What somebody works on is left. It is for calls that change something: whoever lists must find the same without it.
func (l *Launcher) reconcile(ctx context.Context) {
	for _, name := range l.names() {
		_, why := l.prunable(name)
		if _, _, dead := l.leftBehind(name); dead || why != "" {
			l.repair(ctx, name)
		}
	}
}

// repair looks again under the lock of the name, unless somebody has it. What fails is tried again by the next one.
func (l *Launcher) repair(ctx context.Context, name string) {
	lock, err := filelock.Try(l.lockPath(name))
	if err != nil || lock == nil {
		return
	}
	defer lock.Release()
	if c, _, dead := l.leftBehind(name); dead {
		if err := c.concludeHeld(ctx); err != nil {
			l.log.Debug("a dead cluster could not be concluded", "cluster", name, "error", err)
		}
	} else if c, why := l.prunable(name); why != "" && c.Remove() == nil {
		lock.Remove()
	}
}

// leftBehind finds a cluster of which no process lives, not even its keeper, and which has no result yet; st is the last that its keeper wrote.
func (l *Launcher) leftBehind(name string) (c *cluster, st *runstate.State, dead bool) {
	c, err := l.open(launcher.ID(name))
	if err != nil {
		return nil, nil, false
	}
	how, st, err := c.Look()
	if err != nil || how != rundir.Orphaned {
		return c, st, false
	}
	left, err := proc.Marked(c.Markers()...)
	return c, st, err == nil && len(left) == 0
}

// prunable is the reason for which a record may be removed; "" if there is none.
func (l *Launcher) prunable(name string) (*cluster, string) {
	c, err := l.open(launcher.ID(name))
	if err != nil {
		return nil, ""
	}
	if how, _, err := c.Look(); err != nil || how != rundir.Ended {
		return c, ""
	}
	switch {
	case !c.Committed():
		return c, "its client died before the launch was committed"
	case time.Now().After(c.KeptUntil()):
		return c, "lifetime.keep has passed"
	}
	return c, ""
}

// overdue reports whether a record is only there until somebody removes it.
func (l *Launcher) overdue(name string) bool {
	_, why := l.prunable(name)
	return why != ""
}
