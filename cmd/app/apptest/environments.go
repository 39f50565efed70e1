package apptest

import (
	"context"

	"github.com/rayctl/rayctl/launcher"
)

// Environments is Cached.
func (l *Launcher) Environments(context.Context) ([]launcher.Environment, error) {
	return l.Cached, nil
}

// CollectEnvironments removes all that is cached.
func (l *Launcher) CollectEnvironments(_ context.Context, dryRun bool) (removed []launcher.Collected, err error) {
	for _, e := range l.Cached {
		removed = append(removed, launcher.Collected{What: "environment", Name: e.Dir, Why: "not used"})
	}
	if !dryRun {
		l.Cached = nil
		l.Calls = append(l.Calls, "collect environments")
	}
	return removed, nil
}
