package onemachine

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedfile"
	"github.com/rayctl/rayctl/local/proc"
	"github.com/rayctl/rayctl/local/rayenv"
)

// collect reconciles all names, and removes environments that nothing has used for long.
func (l *Launcher) collect(ctx context.Context, dryRun bool) ([]launcher.Collected, error) {
	var out []launcher.Collected
	var unread []error
	inUse := map[string]bool{}
	for _, name := range l.names() {
		found, env, err := l.collectName(ctx, name, dryRun)
		if err != nil {
			unread = append(unread, err)
		}
		out = append(out, found...)
		inUse[env] = true
	}
	if len(unread) > 0 { // the environments that these clusters use are unknown
		return out, errors.Join(unread...)
	}
	environments, err := l.collectEnvironments(dryRun, rayenv.UnusedFor, inUse)
	return append(out, environments...), err
}

// Environments lists the Python environments in the cache, which all launchers of this machine share.
func (l *Launcher) Environments(context.Context) ([]launcher.Environment, error) {
	return rayenv.List(l.cacheDir)
}

// CollectEnvironments removes the environments that no cluster uses.
func (l *Launcher) CollectEnvironments(_ context.Context, dryRun bool) ([]launcher.Collected, error) {
	inUse := map[string]bool{}
	for _, name := range l.names() {
		c, err := l.open(launcher.ID(name))
		if errors.Is(err, launcher.ErrNotFound) {
			continue
		}
		if err != nil { // the environment that it uses is unknown
			return nil, err
		}
		if how, _, err := c.run.Life(); err != nil || how != ended {
			inUse[c.run.Record.EnvDir] = true
		}
	}
	return l.collectEnvironments(dryRun, launcher.EnvironmentTaken, inUse)
}

// collectEnvironments spares the environments of these clusters, and those of which a process runs, such as a keeper of another launcher.
func (l *Launcher) collectEnvironments(dryRun bool, unused time.Duration, inUse map[string]bool) ([]launcher.Collected, error) {
	table, err := proc.Table()
	if err != nil {
		return nil, noProcessTable(err)
	}
	var lines []string
	for _, p := range table {
		lines = append(lines, proc.CommandLine(p))
	}
	return rayenv.Collect(l.cacheDir, dryRun, unused, func(dir string) bool {
		return inUse[dir] || slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, dir+"/") })
	})
}

// collectName looks after one name, unless somebody is at work on it. It also returns the environment that a cluster uses which lives, or may.
func (l *Launcher) collectName(ctx context.Context, name string, dryRun bool) (found []launcher.Collected, env string, err error) {
	lock, err := sharedfile.Try(l.lockPath(name))
	if err != nil {
		return nil, "", err
	}
	c, unread := l.open(launcher.ID(name))
	if lock == nil {
		if unread != nil { // it is just being written
			return nil, "", nil
		}
		return nil, c.run.Record.EnvDir, nil
	}
	defer lock.Release()
	if errors.Is(unread, launcher.ErrNotFound) {
		return l.collectDebris(l.cluster(name), dryRun)
	}
	if unread != nil {
		return nil, "", unread
	}
	how, st, err := c.run.Life()
	if err != nil {
		return nil, c.run.Record.EnvDir, err
	}
	add := func(what, why string) {
		found = append(found, launcher.Collected{What: what, Name: name, Why: why})
	}
	switch {
	case how == living && (c.run.Files.Committed() || st.Committed || st.Exit != nil), how == elsewhere:
		return nil, c.run.Record.EnvDir, nil
	case how != ended:
		if left, err := proc.Marked(c.run.Markers()...); err == nil && len(left) > 0 {
			add("processes "+pids(left), "their keeper or client was killed")
		}
		add("run directory", "its keeper or client was killed")
		if !dryRun {
			err = c.concludeHeld(ctx)
		}
	default:
		if _, why := l.prunable(name); why != "" {
			add("run directory", why)
			if !dryRun {
				if err = c.run.Remove(); err == nil {
					lock.Remove()
				}
			}
		}
	}
	return found, "", err
}

// concludeHeld is concludeLocked for a cluster whose lock nobody else holds, so that one without a commit has no client.
func (c *cluster) concludeHeld(ctx context.Context) error {
	if !c.run.Files.Committed() {
		return c.abandon(ctx)
	}
	return c.concludeLocked(ctx, lost())
}

// collectDebris removes a directory without a record: the beginning of a launch or the rest of a removal. If the record was lost otherwise, the
// cluster may live: its keeper has written where it is, and its nodes theirs.
func (l *Launcher) collectDebris(c *cluster, dryRun bool) ([]launcher.Collected, string, error) {
	if !c.run.Exists() {
		return nil, "", nil
	}
	if alive, err := c.aliveWithoutRecord(); err != nil || alive {
		return nil, "", cmp.Or(err, error(launcher.Fail(runstate.CodeInternal, nil, "end its processes first", "%s has no record, but its processes run: it is not removed", c.run.Dir)))
	}
	if c.run.Exists(outputName) { // drivers' output stays
		return nil, "", nil
	}
	found := []launcher.Collected{{What: "run directory", Name: filepath.Base(c.run.Dir), Why: "it is incomplete"}}
	if dryRun {
		return found, "", nil
	}
	return found, "", c.run.Remove()
}

// aliveWithoutRecord reports whether the keeper or a node of a cluster lives, from their own files and their command lines. An error: that cannot be
// determined.
func (c *cluster) aliveWithoutRecord() (bool, error) {
	st, err := c.run.LastState()
	if err != nil {
		return false, err
	}
	if st != nil && proc.Alive(st.Keeper.PID, st.Keeper.StartTime) {
		return true, nil
	}
	table, err := proc.Table()
	if err != nil {
		return false, noProcessTable(err)
	}
	places := append(c.run.NodeDirs(), " "+c.run.Dir+" ")
	for _, p := range table {
		line := " " + proc.CommandLine(p) + " "
		if !p.Zombie && slices.ContainsFunc(places, func(place string) bool { return strings.Contains(line, place) }) {
			return true, nil
		}
	}
	return false, nil
}
