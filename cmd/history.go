package cmd

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type historyOptions struct {
	config configOptions
	limit  int
	output output
}

// past is one run that ended.
type past struct {
	Name     string        `json:"name"`
	Launcher string        `json:"launcher"`
	Created  time.Time     `json:"created"`
	Ended    time.Time     `json:"ended"`
	Exit     runstate.Exit `json:"exit"`
	Record   bool          `json:"record"` // output and result are still available
}

func newHistory(a *App) *cobra.Command {
	o := &historyOptions{}
	c := &cobra.Command{
		Use:   "history",
		Short: "List what ended: clusters whose record is kept, and runs that this machine watched to their end",
		Example: "  rayctl history\n" +
			"  rayctl history --limit 5 -o json",
		Args: noDash(0, "no arguments"),
		RunE: a.action(func(ctx context.Context) error { return runHistory(ctx, a, o) }),
	}
	o.config.addSelection(c)
	c.Flags().IntVarP(&o.limit, "limit", "n", 20, "at most `N`, the newest; 0 for all")
	o.output.add(c, formatJSON, formatYAML, formatName)
	return c
}

// runHistory merges the substrates' records with the receipts of this machine.
func runHistory(ctx context.Context, a *App, o *historyOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	list, err := a.past(ctx, o)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(x, y past) int { return y.Ended.Compare(x.Ended) })
	if o.limit > 0 && len(list) > o.limit {
		list = list[:o.limit]
	}
	if done, err := o.output.structured(a.Out, nonNil(list)); done || err != nil {
		return err
	}
	rows := [][]string{{"NAME", "LAUNCHER", "ENDED", "TOOK", "EXIT", "CAUSE", "OUTPUT"}}
	for _, p := range list {
		if o.output.format == formatName {
			fmt.Fprintln(a.Out, clean(p.Name))
			continue
		}
		kept := "-"
		if p.Record {
			kept = "rayctl logs " + p.Name
		}
		rows = append(rows, []string{p.Name, p.Launcher, stamp(p.Ended), launcher.Human(p.Ended.Sub(p.Created).Seconds()), strconv.Itoa(p.Exit.Code), orDash(p.Exit.Cause), kept})
	}
	switch {
	case o.output.format == formatName:
		return nil
	case len(list) == 0:
		a.ui.note("nothing has ended yet")
		return nil
	}
	return table(a.Out, rows)
}

func (a *App) past(ctx context.Context, o *historyOptions) ([]past, error) {
	c, err := a.selection(&o.config)
	if err != nil {
		return nil, err
	}
	ls, err := a.searched(c)
	if err != nil {
		return nil, err
	}
	all, err := a.listOurs(ctx, ls, true)
	if err != nil {
		a.ui.warn("records cannot be listed: %s", sentence(err))
	}
	seen := map[string]bool{}
	key := func(launcherName, name string, created time.Time) string {
		return launcherName + "/" + name + "/" + created.UTC().Format(time.RFC3339Nano)
	}
	var list []past
	for _, x := range all {
		s := x.status
		if !s.Phase.Ended() || s.Exit == nil {
			continue
		}
		seen[key(s.Launcher, s.Name, s.Created)] = true
		list = append(list, past{Name: s.Name, Launcher: s.Launcher, Created: s.Created, Ended: s.Since, Exit: *s.Exit, Record: true})
	}
	receipts, err := a.receipts()
	if err != nil {
		return nil, err
	}
	for _, rc := range receipts {
		if c.Origins["launcher"].Source == "--launcher" && rc.Launcher != c.Spec.Launcher {
			continue
		}
		if !seen[key(rc.Launcher, rc.Name, rc.Created)] {
			list = append(list, past{Name: rc.Name, Launcher: rc.Launcher, Created: rc.Created, Ended: rc.Ended, Exit: rc.Exit})
		}
	}
	return list, nil
}
