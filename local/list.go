package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// List reads the run directories, and changes nothing in them.
func (l *Launcher) List(_ context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	var out []launcher.Status
	for _, name := range l.names() {
		if len(sel.Names) > 0 && !slices.Contains(sel.Names, name) {
			continue
		}
		if s, ok := l.listed(name); ok && sel.Matches(s) {
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

// listed is the status of one cluster; ok is false for what is none, and for a record whose time is over. A cluster of which nothing lives any more is shown
// as it will be concluded.
func (l *Launcher) listed(name string) (launcher.Status, bool) {
	c, err := l.open(launcher.ID(name))
	if errors.Is(err, launcher.ErrNotFound) {
		return launcher.Status{}, false
	}
	if err != nil { // it may live
		return launcher.Status{Name: name, Launcher: l.Name(), Phase: runstate.Lost, Attempt: 1, Unreachable: err.Error()}, true
	}
	how, st, err := c.look()
	if err == nil && how == orphaned {
		if _, last, dead := l.leftBehind(name); dead {
			how, st = ended, c.concluded(last, lost())
		}
	}
	if err != nil {
		s := c.status(how, nil)
		s.Unreachable = err.Error()
		return s, true
	}
	if how == missing || l.overdue(name) || how == beginning && l.nobodyLaunches(name) && !c.isHere() || how == ended && !c.Committed() {
		return launcher.Status{}, false
	}
	return c.status(how, st), true
}

func (l *Launcher) lockPath(name string) string { return filepath.Join(l.locks, name) }
