package local

import (
	"context"
	"os"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/filelock"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// leastKeep lets whoever watched a cluster with `keep: 0` read its result.
const leastKeep = time.Minute

func (c *cluster) keptUntil() time.Time {
	info, err := os.Stat(c.path(keeper.ResultFile))
	if err != nil {
		return time.Now()
	}
	return info.ModTime().Add(max(c.record.keep(), leastKeep))
}

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
	} else if c, why := l.prunable(name); why != "" && c.remove() == nil {
		lock.Remove()
	}
}

// leftBehind finds a cluster of which no process lives, not even its keeper, and which has no result yet; st is the last that its keeper wrote.
func (l *Launcher) leftBehind(name string) (c *cluster, st *runstate.State, dead bool) {
	c, err := l.open(launcher.ID(name))
	if err != nil {
		return nil, nil, false
	}
	how, st, err := c.look()
	if err != nil || how != orphaned {
		return c, st, false
	}
	left, err := proc.Marked(c.markers()...)
	return c, st, err == nil && len(left) == 0
}

// prunable says why a record may go; "" if it may not.
func (l *Launcher) prunable(name string) (*cluster, string) {
	c, err := l.open(launcher.ID(name))
	if err != nil {
		return nil, ""
	}
	if how, _, err := c.look(); err != nil || how != ended {
		return c, ""
	}
	switch {
	case !c.Committed():
		return c, "its client died before the launch was committed"
	case time.Now().After(c.keptUntil()):
		return c, "lifetime.keep has passed"
	}
	return c, ""
}

// overdue says that a record is only there until somebody removes it.
func (l *Launcher) overdue(name string) bool {
	_, why := l.prunable(name)
	return why != ""
}
