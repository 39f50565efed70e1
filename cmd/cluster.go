package cmd

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// cluster is one cluster that a command works on.
type cluster struct {
	l    launcher.Launcher
	id   launcher.ID
	spec *spec.ClusterSpec // of the file in force, which may be another cluster's
}

// findOptions identify the cluster for a command.
type findOptions struct {
	name   string // empty: the file's, or the only one
	config *configOptions
	ended  bool // include ended ones
}

// find returns the cluster chosen by the user and prints its name.
func (a *App) find(ctx context.Context, o findOptions) (*cluster, error) {
	loaded, err := a.selection(o.config)
	if err != nil {
		return nil, err
	}
	ls, err := a.searched(loaded)
	if err != nil {
		return nil, err
	}
	if o.name != "" {
		return a.named(ctx, ls, loaded, o.name)
	}
	return a.defaultCluster(ctx, ls, loaded, o.ended)
}

// searched lists the launchers to look for clusters in: the one in force, and this machine unless a flag chose another.
func (a *App) searched(c *config.Loaded) ([]launcher.Launcher, error) {
	l, err := a.launcher(c)
	if err != nil {
		return nil, err
	}
	if c.Spec.Launcher == spec.LauncherLocal || c.Origins["launcher"].Source == "--launcher" {
		return []launcher.Launcher{l}, nil
	}
	local, err := a.launcherNamed(spec.LauncherLocal, c.Spec)
	if err != nil {
		return nil, err
	}
	return []launcher.Launcher{l, local}, nil
}

func (a *App) named(ctx context.Context, ls []launcher.Launcher, c *config.Loaded, name string) (*cluster, error) {
	if err := spec.CheckName(name); err != nil {
		return nil, usageError("`rayctl ls` shows yours", "%q cannot be a cluster's name: %v", name, err)
	}
	chosen := ls[0]
	if len(ls) > 1 {
		for _, l := range ls {
			found, err := l.List(ctx, launcher.Selector{Names: []string{name}, All: true})
			if err != nil {
				a.ui.warn("%s cannot be asked: %s", l.Name(), sentence(err))
			}
			if len(found) > 0 {
				chosen = l
				break
			}
		}
	}
	a.ui.note("%s cluster %s", chosen.Name(), name)
	return &cluster{l: chosen, id: launcher.ID(name), spec: c.Spec}, nil
}

// defaultCluster is the living cluster of the file's name, a run of the file, or the only cluster.
func (a *App) defaultCluster(ctx context.Context, ls []launcher.Launcher, c *config.Loaded, ended bool) (*cluster, error) {
	all, err := a.listOurs(ctx, ls, ended)
	if err != nil {
		return nil, err
	}
	chosen, why, err := choose(all, c)
	if err != nil {
		return nil, err
	}
	a.ui.note("%s cluster %s (%s)", chosen.l.Name(), chosen.status.Name, why)
	return &cluster{l: chosen.l, id: launcher.ID(chosen.status.Name), spec: c.Spec}, nil
}

// listed is one cluster of one launcher.
type listed struct {
	l      launcher.Launcher
	status launcher.Status
}

func (a *App) listOurs(ctx context.Context, ls []launcher.Launcher, ended bool) ([]listed, error) {
	var all []listed
	var errs []error
	for _, l := range ls {
		found, err := l.List(ctx, launcher.Selector{All: ended})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, s := range found {
			if s.Ours {
				all = append(all, listed{l, s})
			}
		}
	}
	if len(all) == 0 && len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// choose selects one cluster: living before ended, the file's before others, the newest of the ended.
func choose(all []listed, c *config.Loaded) (listed, string, error) {
	living := slices.DeleteFunc(slices.Clone(all), func(l listed) bool { return l.status.Phase.Ended() })
	for _, part := range []struct {
		clusters []listed
		newest   bool
	}{{living, false}, {all, true}} {
		if c.File != "" {
			mine := slices.DeleteFunc(slices.Clone(part.clusters), func(l listed) bool { return !runOf(c.Spec.Name, l.status.Name) })
			if found, ok := single(mine, part.newest); ok {
				return found, "of " + c.File, nil
			}
		}
		if found, ok := single(part.clusters, part.newest); ok {
			if part.newest {
				return found, "the last one", nil
			}
			return found, "the only one", nil
		}
		if len(part.clusters) > 0 {
			return listed{}, "", usageError("name one", "several clusters are meant: %s", names(part.clusters))
		}
	}
	return listed{}, "", launcher.Fail(runstate.CodeSpec, launcher.ErrNotFound, "`rayctl up` or `rayctl run` makes one, and NAME chooses an ended one", "there is no cluster")
}

func single(list []listed, newest bool) (listed, bool) {
	switch {
	case len(list) == 1:
		return list[0], true
	case len(list) > 1 && newest:
		return slices.MaxFunc(list, func(x, y listed) int { return x.status.Created.Compare(y.status.Created) }), true
	default:
		return listed{}, false
	}
}

func names(list []listed) string {
	var out []string
	for _, l := range list {
		out = append(out, l.status.Name)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return strings.Join(out, ", ")
}

var runSuffix = regexp.MustCompile(`^-[a-z0-9]{5}$`)

// runOf reports whether a cluster's name is the file's, or that of one of its runs.
func runOf(file, name string) bool {
	rest, ok := strings.CutPrefix(name, runBase(file))
	return name == file || (ok && runSuffix.MatchString(rest))
}

// runBase is the file's name, cut so that a run's suffix fits.
func runBase(file string) string {
	if limit := spec.MaxNameLength - 6; len(file) > limit {
		file = strings.TrimRight(file[:limit], "-")
	}
	return file
}

// runName is a new name for a run of the file.
func runName(file string) string { return runBase(file) + "-" + strings.ToLower(rand.Text()[:5]) }

// status is the cluster's current state.
func (c *cluster) status(ctx context.Context) (launcher.Status, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses, err := c.l.Watch(ctx, c.id)
	if errors.Is(err, launcher.ErrNotFound) {
		if r, rerr := c.l.Result(ctx, c.id); rerr == nil {
			return r.Status, nil
		}
	}
	if err != nil {
		return launcher.Status{}, err
	}
	select {
	case s, ok := <-statuses:
		if ok {
			return s, nil
		}
		if err := ctx.Err(); err != nil {
			return launcher.Status{}, err
		}
		return launcher.Status{}, launcher.NotFound(c.id)
	case <-ctx.Done():
		return launcher.Status{}, ctx.Err()
	}
}

// ability finds an optional interface of a launcher.
func ability[T any](l launcher.Launcher, what string) (T, error) {
	t, ok := l.(T)
	if !ok {
		return t, launcher.Unsupported(l, what)
	}
	return t, nil
}
