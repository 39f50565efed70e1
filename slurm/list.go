package slurm

import (
	"context"
	"path"
	"slices"

	"github.com/rayctl/rayctl/launcher"
)

// List reads the runs' directories, with one question to the controller for all.
func (l *Launcher) List(ctx context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	dir, _, err := l.arrive(ctx)
	if err != nil {
		return nil, err
	}
	names, err := l.site.files.names(ctx, path.Join(dir, "runs"))
	if err != nil {
		return nil, l.cut(err)
	}
	var out []launcher.Status
	for _, name := range names {
		if len(sel.Names) > 0 && !slices.Contains(sel.Names, name) {
			continue
		}
		s, ok, err := l.listed(ctx, name)
		if err != nil {
			return nil, err
		}
		if ok && matches(s, sel) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b launcher.Status) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// listed is the status of one cluster; ok is false for what is none.
func (l *Launcher) listed(ctx context.Context, name string) (s launcher.Status, ok bool, err error) {
	c, err := l.cluster(ctx, name)
	if err != nil {
		return s, false, nil // not ours
	}
	if err := c.look(ctx); err != nil || c.record == nil || !c.committed {
		return s, false, err
	}
	f, j, err := c.ask(ctx, listAge)
	switch {
	case err != nil:
		s = c.waiting(Job{}, unknown)
		if c.state != nil {
			s = c.living(Job{})
		}
		s.Unreachable = err.Error()
	case c.result != nil && f == alive && j.State == StatePending:
		s = c.waiting(j, f)
	case c.result != nil && f == alive:
		s = c.releasing(j)
	case c.result != nil && c.expired():
		return s, false, c.remove(ctx)
	case c.result != nil:
		s = c.status(c.result, j)
	case f == gone:
		if err := c.bury(ctx, verdictOf(j)); err != nil {
			return s, false, err
		}
		s = c.status(c.result, j)
	case c.state != nil:
		s = c.living(j)
	default:
		s = c.waiting(j, f)
	}
	return s, true, nil
}

// listAge lets one answer serve a whole list.
const listAge = whileWaiting / 5

func matches(s launcher.Status, sel launcher.Selector) bool {
	if s.Phase.Ended() && !sel.All {
		return false
	}
	for k, v := range sel.Labels {
		if s.Labels[k] != v {
			return false
		}
	}
	return true
}
