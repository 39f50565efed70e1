package clusters

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
)

type gcOptions struct {
	config       app.ConfigFlags
	dryRun       bool
	environments bool
	olderThan    string
	history      bool
	output       app.Output
}

// NewGC is `rayctl gc`.
func NewGC(a *app.App) *cobra.Command {
	o := &gcOptions{}
	c := &cobra.Command{
		Use:   "gc [--dry-run]",
		Short: "Remove leftovers of killed processes, and old records",
		Long: "gc removes what dead clients and killed keepers left behind. It ends your clusters that can never start, or whose queue limit has passed. It removes records of\n" +
			"clusters that ended longer than lifetime.keep ago, and Python environments that were not used for 90 days.\n" +
			"--older-than removes your records earlier. The files that drivers wrote to output directories stay, and `rayctl history` still lists the runs, unless --history\n" +
			"is given.\n" +
			"gc lists the environments that it keeps (about 1 GB each). --environments removes all that no cluster uses.",
		Example: "  rayctl gc --dry-run\n  rayctl gc --environments\n  rayctl gc --older-than 7d --dry-run",
		Args:    app.NoDash(0, "no arguments"),
		RunE:    a.Action(func(ctx context.Context) error { return runGC(ctx, a, o) }),
	}
	o.config.AddSelection(c)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would be removed")
	c.Flags().BoolVar(&o.environments, "environments", false, "remove all Python environments that no cluster uses; they are made again when they are needed")
	c.Flags().StringVar(&o.olderThan, "older-than", "", "remove also your records of what ended before `TIME`, "+app.AgeUsage+"; 0 is all of them")
	a.CompleteAge(c, "older-than")
	c.Flags().BoolVar(&o.history, "history", false, "with --older-than: remove these runs also from the history on this machine")
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// runGC cleans up for every reachable launcher that can leave something behind.
func runGC(ctx context.Context, a *app.App, o *gcOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := a.Selection(&o.config)
	if err != nil {
		return err
	}
	ls, err := a.SearchedLaunchers(c, "")
	if err != nil {
		return err
	}
	age, err := o.age(a)
	if err != nil {
		return err
	}
	var all []launcher.Collected
	var failures []error // the failure of one launcher does not stop the others
	for _, l := range ls {
		tokens, err := a.CollectTokens(ctx, l, o.dryRun)
		all, failures = append(all, tokens...), append(failures, err)
		found, err := l.Reconcile(ctx, launcher.Scope{DryRun: o.dryRun})
		all, failures = append(all, found...), append(failures, err)
		if age != nil {
			found, err := oldRecords(ctx, a, l, *age, o.dryRun)
			all, failures = appendNew(all, found), append(failures, err)
		}
		if envs, able := launcher.As[launcher.EnvironmentKeeper](l); able && o.environments {
			found, err := envs.CollectEnvironments(ctx, o.dryRun)
			all, failures = appendNew(all, found), append(failures, err)
		}
	}
	if o.history {
		var found []launcher.Collected
		receipts, err := a.Receipts()
		if err == nil {
			found, err = receipts.Forget(a.Now().Add(-*age), o.dryRun)
		}
		all, failures = append(all, found...), append(failures, err)
	}
	failed := errors.Join(failures...)
	if done, err := o.output.Structured(a.Out, terminal.NonNil(all)); done || err != nil {
		return cmp.Or(err, failed)
	}
	verb := "removed"
	if o.dryRun {
		verb = "would remove"
	}
	for _, x := range all {
		fmt.Fprintf(a.Out, "%s %s %s: %s\n", verb, terminal.Clean(x.What), terminal.Clean(x.Name), terminal.Clean(x.Why))
	}
	if len(all) == 0 && failed == nil {
		a.UI.Note("there is nothing to remove")
	}
	return errors.Join(failed, noteEnvironments(ctx, a, ls, all, o.environments))
}

// age is the value of --older-than; nil: the flag was not given.
func (o *gcOptions) age(a *app.App) (*time.Duration, error) {
	if o.olderThan == "" && o.history {
		return nil, app.UsageError("add --older-than 0 for all runs, or --older-than 30d", "--history needs --older-than, which chooses the runs")
	}
	if o.olderThan == "" {
		return nil, nil //nolint:nilnil // no age is no error
	}
	age, err := a.Age("older-than", o.olderThan)
	return &age, err
}

// oldRecords removes this user's records of clusters that ended longer than age ago. If one cannot be removed, the others still are.
func oldRecords(ctx context.Context, a *app.App, l launcher.Launcher, age time.Duration, dryRun bool) (removed []launcher.Collected, err error) {
	list, err := l.List(ctx, launcher.Selector{All: true})
	if err != nil {
		return nil, err
	}
	var failures []error
	for _, s := range list {
		if !s.Ours || s.Theirs || !s.Phase.Ended() || a.Now().Sub(s.Since) < age {
			continue
		}
		if !dryRun {
			if err := l.Forget(ctx, launcher.ID(s.Name)); err != nil {
				failures = append(failures, err)
				continue
			}
		}
		removed = append(removed, launcher.Collected{What: "record", Name: s.Name, Why: "ended " + launcher.Stamp(s.Since)})
	}
	return removed, errors.Join(failures...)
}

// appendNew adds the entries of found that all does not have: launchers of one machine share their environments, and in a dry run each of them finds the same ones.
func appendNew(all, found []launcher.Collected) []launcher.Collected {
	for _, x := range found {
		if !slices.ContainsFunc(all, func(y launcher.Collected) bool { return x.What == y.What && x.Name == y.Name }) {
			all = append(all, x)
		}
	}
	return all
}

// noteEnvironments prints the Python environments that are kept, and why. unwanted: --environments was given.
func noteEnvironments(ctx context.Context, a *app.App, ls []launcher.Launcher, removed []launcher.Collected, unwanted bool) error {
	named := map[string]bool{}
	for _, x := range removed {
		named[x.Name] = true
	}
	for _, l := range ls {
		envs, able := launcher.As[launcher.EnvironmentKeeper](l)
		if !able {
			continue
		}
		list, err := envs.Environments(ctx)
		if err != nil {
			return err
		}
		for _, e := range list {
			if !named[e.Dir] {
				named[e.Dir] = true
				a.UI.Note("kept environment %s: %s, last used %s; %s", e.Dir, terminal.Size(e.Bytes), terminal.Stamp(a.Err, e.Used), whyKept(a.Now().Sub(e.Used), unwanted))
			}
		}
	}
	return nil
}

// whyKept is the reason why gc keeps an environment. unused: the time since its last use.
func whyKept(unused time.Duration, unwanted bool) string {
	switch {
	case !unwanted:
		return "--environments removes it if nothing uses it"
	case unused < launcher.EnvironmentTaken:
		return fmt.Sprintf("a launch may have chosen it in the last %d minutes", int(launcher.EnvironmentTaken.Minutes()))
	default:
		return "a cluster or a process uses it"
	}
}
