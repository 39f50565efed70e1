package app

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Cluster is one cluster that a command works on.
type Cluster struct {
	Launcher launcher.Launcher
	ID       launcher.ID
	Spec     *spec.ClusterSpec // of the file in force, which may be another cluster's

	result *launcher.Result // that was read; it does not change any more
}

// FindOptions identify the cluster for a command.
type FindOptions struct {
	Name   string // empty: the file's, or the only one
	Config *ConfigFlags
	Ended  bool // include ended ones
	Shared bool // Name may be the directory of a run that another user shares
}

// Find returns the cluster chosen by the user and prints its name.
func (a *App) Find(ctx context.Context, o FindOptions) (*Cluster, error) {
	if o.Shared && IsShared(o.Name) {
		return a.shared(o.Name)
	}
	if c := a.remembered(ctx, o.Name, o.Config); c != nil {
		a.UI.Note("%s cluster %s", c.Launcher.Name(), c.ID)
		return c, nil
	}
	loaded, err := a.Selection(o.Config)
	if err != nil {
		return nil, err
	}
	ls, err := a.SearchedLaunchers(loaded, o.Name)
	if err != nil {
		return nil, err
	}
	if o.Name != "" {
		return a.named(ctx, ls, loaded, o.Name)
	}
	return a.defaultCluster(ctx, ls, loaded, o)
}

// Exists reports whether a cluster of this name lives, or has a record.
func (a *App) Exists(ctx context.Context, name string, o *ConfigFlags) (bool, error) {
	if a.remembered(ctx, name, o) != nil {
		return true, nil
	}
	loaded, err := a.Selection(o)
	if err != nil {
		return false, err
	}
	ls, err := a.SearchedLaunchers(loaded, name)
	if err != nil {
		return false, err
	}
	var errs []error
	for _, l := range ls {
		found, err := l.List(ctx, launcher.Selector{Names: []string{name}, All: true})
		if len(found) > 0 {
			return true, nil
		}
		errs = append(errs, err)
	}
	return false, errors.Join(errs...)
}

// ClusterFirst takes the first argument for the cluster's name if there is such a cluster and o names none; it returns the others. Ids of jobs and names of
// applications, which users choose, look the same.
func (a *App) ClusterFirst(ctx context.Context, o *DashboardFlags, args []string) ([]string, error) {
	if o.Cluster != "" || o.Address != "" || len(args) == 0 || spec.CheckName(args[0]) != nil {
		return args, nil
	}
	exists, err := a.Exists(ctx, args[0], &o.Config)
	if exists {
		o.Cluster, args = args[0], args[1:]
	}
	return args, err
}

// SearchedLaunchers lists the launchers to look for a cluster in, or without a name for all: the one in force, and unless a flag chose it this machine
// and where this machine launched clusters.
func (a *App) SearchedLaunchers(c *config.Loaded, name string) ([]launcher.Launcher, error) {
	l, err := a.Launcher(c)
	if err != nil {
		return nil, err
	}
	ls := []launcher.Launcher{l}
	if c.Origins["launcher"].Source == "--launcher" {
		return ls, nil
	}
	if c.Spec.Launcher != spec.Fallback() {
		local, err := a.launcherNamed(spec.Fallback(), c.Spec)
		if err != nil {
			return nil, err
		}
		ls = append(ls, local)
	}
	for _, place := range a.launchedAt(c.Spec, name) {
		other, err := a.launcherNamed(place.Launcher, place)
		if err != nil {
			a.Logger().Debug("not searched for clusters", "launcher", place.Launcher, "error", err)
			continue
		}
		ls = append(ls, other)
	}
	return ls, nil
}

// launchedAt are other places where this machine launched the cluster of this name, or without a name clusters that may still live.
func (a *App) launchedAt(s *spec.ClusterSpec, name string) []*spec.ClusterSpec {
	if name == "" {
		return a.launched().Living(a.Now(), s.Launcher, spec.Fallback())
	}
	if place := a.launched().Of(name, s); place != nil && place.Launcher != spec.Fallback() {
		return []*spec.ClusterSpec{place}
	}
	return nil
}

func (a *App) named(ctx context.Context, ls []launcher.Launcher, c *config.Loaded, name string) (*Cluster, error) {
	if err := spec.CheckName(name); err != nil {
		return nil, UsageError("`rayctl ls` shows yours", "%q cannot be a cluster's name: %v", name, err)
	}
	chosen := ls[0]
	if len(ls) > 1 || chosen.Name() == spec.Fallback() { // where a list costs nothing, nothing is claimed of a cluster that does not exist
		there := false
		for _, l := range ls {
			found, err := l.List(ctx, launcher.Selector{Names: []string{name}, All: true})
			if err != nil {
				a.UI.Warn("%s cannot be queried: %s", l.Name(), Sentence(err))
			}
			if len(found) > 0 {
				chosen, there = l, true
				break
			}
		}
		if !there {
			return &Cluster{Launcher: chosen, ID: launcher.ID(name), Spec: c.Spec}, nil
		}
	}
	a.UI.Note("%s cluster %s", chosen.Name(), name)
	return &Cluster{Launcher: chosen, ID: launcher.ID(name), Spec: c.Spec}, nil
}

// defaultCluster is the living cluster of the file's name, a run of the file, or the only cluster.
func (a *App) defaultCluster(ctx context.Context, ls []launcher.Launcher, c *config.Loaded, o FindOptions) (*Cluster, error) {
	all, err := a.List(ctx, ls, o.Ended)
	if err != nil {
		return nil, err
	}
	howToName := "Choose one by its NAME"
	if o.Config.Flags.Lookup("cluster") != nil {
		howToName = "Choose one with -c NAME"
	}
	mine := slices.DeleteFunc(slices.Clone(all), func(l Listed) bool { return l.Status.Theirs })
	if len(mine) == 0 && len(all) > 0 {
		return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrNotFound, howToName, "there is no cluster of yours, but of other users: %s", names(all))
	}
	chosen, why, err := choose(mine, c, howToName)
	if err != nil {
		return nil, err
	}
	a.UI.Note("%s cluster %s (%s)", chosen.Launcher.Name(), chosen.Status.Name, why)
	return &Cluster{Launcher: chosen.Launcher, ID: launcher.ID(chosen.Status.Name), Spec: c.Spec}, nil
}

// Listed is one cluster of one launcher.
type Listed struct {
	Launcher launcher.Launcher
	Status   launcher.Status
}

// List lists the clusters of several launchers. That one of them cannot list is an error only if nothing was found.
func (a *App) List(ctx context.Context, ls []launcher.Launcher, ended bool) ([]Listed, error) {
	var all []Listed
	var errs []error
	for _, l := range ls {
		found, err := l.List(ctx, launcher.Selector{All: ended})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, s := range found {
			if s.Ours {
				all = append(all, Listed{l, s})
			}
		}
	}
	if len(all) == 0 && len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

// choose selects one cluster: living before ended, the file's before others, the newest of the ended.
func choose(all []Listed, c *config.Loaded, howToName string) (Listed, string, error) {
	living := slices.DeleteFunc(slices.Clone(all), func(l Listed) bool { return l.Status.Phase.Ended() })
	for _, part := range []struct {
		clusters []Listed
		newest   bool
	}{{living, false}, {all, true}} {
		if c.File != "" {
			mine := slices.DeleteFunc(slices.Clone(part.clusters), func(l Listed) bool { return !RunOf(c.Spec.Name, l.Status.Name) })
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
			return Listed{}, "", UsageError("", "More than one cluster matches: %s. %s", names(part.clusters), howToName)
		}
	}
	return Listed{}, "", launcher.Fail(runstate.CodeSpec, launcher.ErrNotFound, "`rayctl up` or `rayctl run` makes one, and NAME chooses an ended one", "there is no cluster")
}

func single(list []Listed, newest bool) (Listed, bool) {
	switch {
	case len(list) == 1:
		return list[0], true
	case len(list) > 1 && newest:
		return slices.MaxFunc(list, func(x, y Listed) int { return x.Status.Created.Compare(y.Status.Created) }), true
	default:
		return Listed{}, false
	}
}

func names(list []Listed) string {
	var out []string
	for _, l := range list {
		out = append(out, l.Status.Name)
	}
	slices.SortFunc(out, cmp.Compare[string])
	return strings.Join(out, ", ")
}

var runSuffix = regexp.MustCompile(`^-[a-z0-9]{5}$`)

// RunOf reports whether a cluster's name is the file's, or that of one of its runs.
func RunOf(file, name string) bool {
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

// RunName is a new name for a run of the file.
func RunName(file string) string { return runBase(file) + "-" + strings.ToLower(rand.Text()[:5]) }

// Status is the cluster's current state.
func (c *Cluster) Status(ctx context.Context) (launcher.Status, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses, err := c.Launcher.Watch(ctx, c.ID)
	if errors.Is(err, launcher.ErrNotFound) {
		if r, rerr := c.Result(ctx); rerr == nil {
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
		return launcher.Status{}, launcher.NotFound(c.ID)
	case <-ctx.Done():
		return launcher.Status{}, ctx.Err()
	}
}

// UntilEnded waits until the cluster has ended or no longer exists; it returns false if ctx ended before. If a watch breaks off, it watches again.
func (c *Cluster) UntilEnded(ctx context.Context) bool {
	for ctx.Err() == nil {
		statuses, err := c.Launcher.Watch(ctx, c.ID)
		if errors.Is(err, launcher.ErrNotFound) {
			return true
		}
		if err == nil {
			for s := range statuses {
				if s.Phase.Ended() {
					return true
				}
			}
		}
		sleep.For(ctx, 5*time.Second)
	}
	return false
}

// Ability finds an optional interface of a launcher.
func Ability[T any](l launcher.Launcher, what string) (T, error) {
	t, ok := l.(T)
	if !ok {
		return t, launcher.Unsupported(l, what)
	}
	return t, nil
}
