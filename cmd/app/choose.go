package app

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

// Listed is one cluster of one launcher.
type Listed struct {
	Launcher launcher.Launcher
	Status   launcher.Status
}

// List lists rayctl's clusters of several launchers; ended: those that have ended, too. The failure of one launcher is an error only if the others list no cluster.
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

// choose selects the cluster of a command that names none, and returns the reason for the choice as well:
//  1. among the living clusters the one of the cluster file c (its name, or a run of it), else the only one; if there are several, the user must name one.
//  2. if none lives, among the ended ones the newest of the cluster file, else the newest of all; but with a cluster file not one that another file launched,
//     which elsewhere reports.
//
// howToName is the sentence that tells the user how to name a cluster.
func choose(all []Listed, c *config.Loaded, howToName string, elsewhere func(name string) bool) (Listed, string, error) {
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
		found, ok := single(part.clusters, part.newest)
		if ok && c.File != "" && found.Status.Phase.Ended() && elsewhere(found.Status.Name) {
			return Listed{}, "", launcher.Fail(runstate.CodeSpec, launcher.ErrNotFound, "`rayctl run` or `rayctl up` launches one; to choose another cluster, give its name, such as "+found.Status.Name,
				"there is no cluster of %s (%s)", c.File, c.Spec.Name)
		}
		if ok {
			if part.newest {
				return found, "the last one", nil
			}
			return found, "the only one", nil
		}
		if len(part.clusters) > 0 {
			return Listed{}, "", UsageError("", "More than one cluster matches: %s. %s", names(part.clusters), howToName)
		}
	}
	return Listed{}, "", launcher.Fail(runstate.CodeSpec, launcher.ErrNotFound, "`rayctl up` or `rayctl run` launches one; `rayctl ls -a` shows those that have ended", "there is no cluster")
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

// RunOf reports whether a cluster's name is the name in the cluster file, or the name of one of the file's runs.
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
