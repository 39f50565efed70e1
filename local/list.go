package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/local/proc"
)

// List reads the run directories.
func (l *Launcher) List(ctx context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	l.prune()
	var out []launcher.Status
	for _, name := range l.names() {
		if len(sel.Names) > 0 && !slices.Contains(sel.Names, name) {
			continue
		}
		if s, ok := l.listed(ctx, name); ok && sel.Matches(s) {
			out = append(out, s)
		}
	}
	if sel.Others {
		others, err := l.others()
		if err != nil {
			return out, err
		}
		out = append(out, others...)
	}
	slices.SortStableFunc(out, func(a, b launcher.Status) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// names lists the names that have a directory.
func (l *Launcher) names() []string {
	entries, err := os.ReadDir(l.clusters)
	if err != nil {
		return nil // no cluster was ever launched here, or Launch will say what is wrong
	}
	return names(entries)
}

// listed is the status of one cluster; ok is false for what is none. A cluster whose keeper was killed gets its result here as
// soon as nothing is left of it.
func (l *Launcher) listed(ctx context.Context, name string) (launcher.Status, bool) {
	c, err := l.open(launcher.ID(name))
	if errors.Is(err, launcher.ErrNotFound) {
		return launcher.Status{}, false
	}
	if err != nil { // it may live
		return launcher.Status{Name: name, Launcher: l.Name(), Phase: launcher.Lost, Attempt: 1, Unreachable: err.Error()}, true
	}
	how, st, err := c.look()
	if err == nil && how == orphaned {
		if left, procErr := proc.Marked(c.markers()...); procErr == nil && len(left) == 0 && c.settle(ctx, lost()) == nil {
			how, st, err = c.look()
		}
	}
	if err != nil {
		s := c.status(how, nil)
		s.Unreachable = err.Error()
		return s, true
	}
	if how == missing || how == beginning && l.nobodyLaunches(name) && !c.isHere() || how == ended && !c.Committed() {
		return launcher.Status{}, false
	}
	return c.status(how, st), true
}

func (l *Launcher) lockPath(name string) string { return filepath.Join(l.locks, name) }
