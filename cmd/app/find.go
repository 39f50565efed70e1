package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// FindOptions identify the cluster for a command.
type FindOptions struct {
	Name   string // empty: the file's, or the only one
	Config *ConfigFlags
	Ended  bool // include ended ones
	// HowToName is the next step where several match; empty: to give a NAME.
	HowToName string
	Shared    bool // Name may be the directory of a run that another user shares
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

// rayJobPrefix begins the ids that Ray makes for jobs.
const rayJobPrefix = "raysubmit_"

// IsJobID reports whether an argument where a cluster or a job may be is a job: it cannot be a cluster's name.
func IsJobID(arg string) bool { return arg != "" && spec.CheckName(arg) != nil }

func (a *App) named(ctx context.Context, ls []launcher.Launcher, c *config.Loaded, name string) (*Cluster, error) {
	if IsYAMLFile(name) {
		return nil, UsageError("`-f "+shellescape.Quote(name)+"` chooses the cluster of that file", "%q is a file, not a cluster's name", name)
	}
	if strings.HasPrefix(name, rayJobPrefix) {
		return nil, UsageError("`rayctl jobs -c CLUSTER JOB` shows it, `rayctl logs -c CLUSTER JOB` its output, and `rayctl stop -c CLUSTER JOB` stops it",
			"%s is a job, not a cluster", name)
	}
	if spec.CheckName(name) != nil {
		return nil, UsageError("`rayctl ls` shows your clusters", "%q cannot be a cluster's name, which has at most %d lower-case letters, digits and -", name, spec.MaxNameLength)
	}
	chosen := ls[0]
	if len(ls) > 1 || chosen.Name() == spec.Fallback() { // where a list costs nothing, nothing is claimed of a cluster that does not exist
		var there, silent launcher.Launcher
		var why error
		for _, l := range ls {
			found, err := l.List(ctx, launcher.Selector{Names: []string{name}, All: true})
			if len(found) > 0 {
				there = l
				break
			}
			if err != nil && silent == nil {
				silent, why = l, err
			}
		}
		switch {
		case there == nil && silent != nil: // it may be there: the command asks once more, and says why it cannot
			return &Cluster{Launcher: silent, ID: launcher.ID(name), Spec: c.Spec}, nil
		case there == nil:
			return &Cluster{Launcher: chosen, ID: launcher.ID(name), Spec: c.Spec}, nil
		case silent != nil:
			a.UI.Warn("%s cannot be queried: %s", silent.Name(), Sentence(why))
		}
		chosen = there
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
	howToName := cmp.Or(o.HowToName, "Choose one by its NAME")
	if o.Config.Flags.Lookup("cluster") != nil {
		howToName = "Choose one with -c NAME"
	}
	mine := slices.DeleteFunc(slices.Clone(all), func(l Listed) bool { return l.Status.Theirs })
	if len(mine) == 0 && len(all) > 0 {
		return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrNotFound, howToName, "there is no cluster of yours, but of other users: %s", names(all))
	}
	chosen, why, err := choose(mine, c, howToName, func(name string) bool { return a.launched().FromElsewhere(name, c.File) })
	if err != nil {
		return nil, err
	}
	a.UI.Note("%s cluster %s (%s)", chosen.Launcher.Name(), chosen.Status.Name, why)
	return &Cluster{Launcher: chosen.Launcher, ID: launcher.ID(chosen.Status.Name), Spec: c.Spec}, nil
}

// remembered is the cluster of this name where this machine launched it, if the cluster file here is another cluster's: that file, which may name another
// launcher or have mistakes, has nothing to do with it. It is nil if the command line or a variable chooses where to look, or nothing is there.
func (a *App) remembered(ctx context.Context, name string, o *ConfigFlags) *Cluster {
	if o.chosen() || a.Getenv("RAYCTL_LAUNCHER") != "" {
		return nil
	}
	place := a.launched().At(name)
	if place == nil {
		return nil
	}
	here, err := config.Load(config.Options{Flags: o.Flags, Stdin: a.In, SkipValidation: true})
	if err == nil && (here.File == "" || RunOf(here.Spec.Name, name)) {
		return nil
	}
	l, err := a.launcherNamed(place.Launcher, place)
	if err != nil {
		return nil
	}
	found, err := l.List(ctx, launcher.Selector{Names: []string{name}, All: true})
	if err != nil || len(found) == 0 {
		return nil
	}
	return &Cluster{Launcher: l, ID: launcher.ID(name), Spec: spec.For(place, place.Launcher)}
}

// chosen reports whether the command line selects a configuration.
func (o *ConfigFlags) chosen() bool {
	for _, name := range config.SelectionFlags() {
		if o.Flags.Changed(name) {
			return true
		}
	}
	return false
}
