package onemachine

import (
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// List reads the run directories, and changes nothing in them.
func (l *Launcher) List(_ context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	var out []launcher.Status
	names := slices.DeleteFunc(l.names(), func(name string) bool { return len(sel.Names) > 0 && !slices.Contains(sel.Names, name) })
	alive := l.outliving(names)
	for _, name := range names {
		if s, ok := l.listed(name, alive[name]); ok && sel.Matches(s) {
			out = append(out, s)
		}
	}
	if sel.Others {
		others, err := otherClusters(l.Name(), l.host, l.sessions())
		if err != nil {
			return out, err
		}
		out = append(out, others...)
	}
	slices.SortStableFunc(out, func(a, b launcher.Status) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// names lists the names of the clusters that have a run directory.
func (l *Launcher) names() []string { return runNames(l.clusters) }

// outliving returns the ended clusters that still have processes: those whose run directory has a result. It reads the process table once for all clusters, and
// again for each only if that found a process.
func (l *Launcher) outliving(names []string) map[string]bool {
	var ended []*cluster
	var markers []string
	for _, name := range names {
		if c, err := l.open(launcher.ID(name)); err == nil && c.run.HasResult() {
			ended, markers = append(ended, c), append(markers, c.run.Markers()...)
		}
	}
	alive := map[string]bool{}
	if left, err := proc.Marked(markers...); err != nil || len(left) == 0 {
		return alive
	}
	for _, c := range ended {
		left, err := proc.Marked(c.run.Markers()...)
		alive[c.run.Name] = err == nil && len(left) > 0
	}
	return alive
}

// listed returns the status of one cluster; ok is false if the directory is no cluster's, or if its record is due for removal. A cluster without a living process
// and without a result is shown with the end that rayctl will write for it. outlived: the cluster has a result, and processes of it still live.
func (l *Launcher) listed(name string, outlived bool) (launcher.Status, bool) {
	c, err := l.open(launcher.ID(name))
	if errors.Is(err, launcher.ErrNotFound) {
		return launcher.Status{}, false
	}
	if err != nil { // the cluster may live, so it is listed
		return launcher.Status{Name: name, Launcher: l.Name(), Phase: runstate.Lost, Attempt: 1, Unreachable: err.Error()}, true
	}
	how, st, err := c.run.Life()
	toConclude := false
	if err == nil && how == orphaned {
		if _, last, dead := l.leftBehind(name); dead {
			how, st, toConclude = ended, c.concluded(last, lost()), true
		}
	}
	if err != nil {
		s := c.status(how, nil)
		s.Unreachable = err.Error()
		return s, true
	}
	if how == missing || l.overdue(name) || how == beginning && l.nobodyLaunches(name) && !c.run.IsHere() || how == ended && !c.run.Files.Committed() {
		return launcher.Status{}, false
	}
	switch {
	case toConclude:
		return due(c.status(how, st), lost()), true
	case how == ended && outlived:
		return c.left(st), true
	}
	return c.status(how, st), true
}

func (l *Launcher) lockPath(name string) string { return filepath.Join(l.locks, name) }

// sessions returns the Ray sessions of the clusters that this launcher made.
func (l *Launcher) sessions() map[string]bool {
	out := map[string]bool{}
	for _, name := range l.names() {
		if st, err := l.cluster(name).run.LastState(); err == nil && st != nil && st.Head.Session != "" {
			out[st.Head.Session] = true
		}
	}
	return out
}
