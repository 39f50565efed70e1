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
	"github.com/rayctl/rayctl/launcher/spec/units"
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
		Long: "gc removes leftovers of dead clients and killed keepers, ends those of your clusters that can never start or wait in vain (the queue limit has passed), and\n" +
			"removes records whose lifetime.keep has passed since the end, and Python environments that were not used for 90 days. --older-than removes your records earlier; what drivers left in output directories stays,\n" +
			"and so does what `rayctl history` knows of the runs, unless --history is given.\n" +
			"It lists the environments that it keeps (about 1 GB each). --environments also removes those of them that no cluster uses.",
		Example: "  rayctl gc --dry-run\n  rayctl gc --environments\n  rayctl gc --older-than 7d --dry-run",
		Args:    app.NoDash(0, "no arguments"),
		RunE:    a.Action(func(ctx context.Context) error { return runGC(ctx, a, o) }),
	}
	o.config.AddSelection(c)
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would be removed")
	c.Flags().BoolVar(&o.environments, "environments", false, "remove all Python environments that no cluster uses; they are made again when they are needed")
	c.Flags().StringVar(&o.olderThan, "older-than", "", "remove also your records of what ended more than `TIME` ago, as in 7d; 0 is all of them")
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
	age, err := o.age()
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

// age is that of --older-than; nil: it was not given.
func (o *gcOptions) age() (*time.Duration, error) {
	if o.olderThan == "" && o.history {
		return nil, app.UsageError("add --older-than 0 for all of them, or --older-than 30d", "--history removes what --older-than chooses")
	}
	if o.olderThan == "" {
		return nil, nil //nolint:nilnil // no age is no error
	}
	age, err := units.ParseDuration(o.olderThan)
	if err != nil {
		return nil, app.UsageError("", "--older-than: %v", err)
	}
	return &age, nil
}

// oldRecords removes this user's records of what ended before that age. One that cannot be removed does not keep the others.
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

// appendNew adds what is not there yet: launchers of one machine have the same environments, which a dry run leaves there.
func appendNew(all, found []launcher.Collected) []launcher.Collected {
	for _, x := range found {
		if !slices.ContainsFunc(all, func(y launcher.Collected) bool { return x.What == y.What && x.Name == y.Name }) {
			all = append(all, x)
		}
	}
	return all
}

// noteEnvironments names the Python environments that are kept, and why. unwanted: all that nothing uses were to be removed.
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

// whyKept is why an environment stays that was used last so long ago.
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
