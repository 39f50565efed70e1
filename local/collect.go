package local

import (
	"context"
	"path/filepath"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/filelock"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/local/rayenv"
)

// Collect ends what is left of killed keepers and dead clients, and removes old records and environments.
func (l *Launcher) Collect(ctx context.Context, dryRun bool) ([]launcher.Collected, error) {
	var out []launcher.Collected
	inUse := map[string]bool{}
	for _, name := range l.names() {
		found, env, err := l.collect(ctx, name, dryRun)
		if err != nil {
			return out, err
		}
		out = append(out, found...)
		inUse[env] = true
	}
	environments, err := rayenv.Collect(l.cacheDir, dryRun, func(dir string) bool { return inUse[dir] })
	return append(out, environments...), err
}

// collect looks after one name, unless somebody is at work on it. It also returns the environment that a living cluster uses.
func (l *Launcher) collect(ctx context.Context, name string, dryRun bool) (found []launcher.Collected, env string, err error) {
	lock, err := filelock.Try(l.lockPath(name))
	if err != nil || lock == nil {
		return nil, "", err
	}
	defer lock.Release()
	c, err := l.open(launcher.ID(name))
	if err != nil {
		return l.collectDebris(l.cluster(name), dryRun)
	}
	how, st, err := c.look()
	if err != nil {
		return l.collectDebris(c, dryRun)
	}
	add := func(what, why string) {
		found = append(found, launcher.Collected{What: what, Name: name, Why: why})
	}
	switch {
	case how == living && (c.Committed() || st.Exit != nil):
		return nil, c.record.EnvDir, nil
	case how == elsewhere:
		return nil, "", nil
	case how != ended:
		if left, err := proc.Marked(c.markers()...); err == nil && len(left) > 0 {
			add("processes "+pids(left), "their keeper or client was killed")
		}
		add("run directory", "its keeper or client was killed")
		if !dryRun {
			err = c.settleHeld(ctx)
		}
	default:
		if _, why := l.prunable(name); why != "" {
			add("run directory", why)
			if !dryRun {
				if err = c.remove(); err == nil {
					lock.Remove()
				}
			}
		}
	}
	return found, "", err
}

// settleHeld is settleLocked for a cluster whose lock nobody else holds, so that one without a commit has no client.
func (c *cluster) settleHeld(ctx context.Context) error {
	if !c.Committed() {
		return c.abandon(ctx)
	}
	return c.settleLocked(ctx, lost())
}

// collectDebris removes a directory that is no readable record.
func (l *Launcher) collectDebris(c *cluster, dryRun bool) ([]launcher.Collected, string, error) {
	if isDir(c.path(outputName)) || !isDir(c.dir) { // drivers' output stays
		return nil, "", nil
	}
	found := []launcher.Collected{{What: "run directory", Name: filepath.Base(c.dir), Why: "it is damaged or incomplete"}}
	if dryRun {
		return found, "", nil
	}
	return found, "", c.remove()
}
