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

// choose selects one cluster: living before ended, the file's before others, the newest of the ended. An ended one is not meant in the directory of a cluster
// file if another file launched it.
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
			return Listed{}, "", launcher.Fail(runstate.CodeSpec, launcher.ErrNotFound, "`rayctl run` or `rayctl up` makes one, and a name chooses another, such as "+found.Status.Name,
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
