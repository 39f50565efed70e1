package clusters

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/history"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type historyOptions struct {
	config app.ConfigFlags
	name   string
	limit  int
	since  string
	output app.Output
}

// exitCode is the exit code for people. A cluster without a job that somebody ended has not failed: the code is rayctl's own, which nobody saw.
func exitCode(p history.Past) string {
	if p.Command == "" && p.Exit.Cause == runstate.CauseDown {
		return "-"
	}
	return strconv.Itoa(p.Exit.Code)
}

// command is the run's, or what was submitted to a cluster without one.
func command(p history.Past) string {
	if p.Command == "" && p.Jobs != nil {
		return endedJobs(p.Jobs)
	}
	return p.Command
}

// endedJobs sums up submitted jobs: 3 jobs (2 succeeded), the last: python a.py.
func endedJobs(e *runstate.EndedSubmissions) string {
	last := driverio.UserCommand(e.Last.Entrypoint)
	if e.Count == 1 {
		return fmt.Sprintf("1 job (%s): %s", strings.ToLower(string(e.Last.State)), last)
	}
	return fmt.Sprintf("%d jobs (%d succeeded), the last: %s", e.Count, e.Succeeded, last)
}

func pastRuns(ctx context.Context, a *app.App, o *historyOptions) ([]history.Past, error) {
	c, err := a.Selection(&o.config)
	if err != nil {
		return nil, err
	}
	ls, err := a.SearchedLaunchers(c, "")
	if err != nil {
		return nil, err
	}
	var records []launcher.Status
	var searched []launcher.Launcher
	for _, l := range ls {
		found, err := a.List(ctx, []launcher.Launcher{l}, true)
		if err != nil {
			a.UI.Warn("records cannot be listed: %s", app.Sentence(err))
			continue
		}
		for _, x := range found {
			records = append(records, x.Status)
		}
		searched = append(searched, l)
	}
	kept, err := a.Receipts()
	var receipts []launcher.Receipt
	if err == nil {
		receipts, err = kept.All()
	}
	if err != nil {
		a.UI.Warn("what this machine has seen end is not listed: %s", app.Sentence(err))
	}
	if c.Origins["launcher"].Source == "--launcher" {
		receipts = slices.DeleteFunc(receipts, func(rc launcher.Receipt) bool { return rc.Launcher != c.Spec.Launcher })
	}
	return history.Ended(records, receipts, func(rc *launcher.Receipt) bool { return looked(ctx, searched, rc) }), nil
}

// looked reports whether the record of a run would have been found.
func looked(ctx context.Context, searched []launcher.Launcher, rc *launcher.Receipt) bool {
	return slices.ContainsFunc(searched, func(l launcher.Launcher) bool {
		return l.Name() == rc.Launcher && l.Searches(ctx, rc.Where)
	})
}

// NewHistory is `rayctl history`.
func NewHistory(a *app.App) *cobra.Command {
	o := &historyOptions{}
	c := &cobra.Command{
		Use:   "history [NAME]",
		Short: "List ended clusters: cause, time and cost",
		Long: "history lists ended clusters whose record still exists, and others if rayctl on this machine watched their end or replaced them. With NAME it lists only those with\n" +
			"that name, and the runs of a cluster file with that name. `rayctl logs NAME` shows the output of one whose record exists.",
		Example: "  rayctl history\n" +
			"  rayctl history grpo --since 2026-11-23\n" +
			"  rayctl history --limit 5 -o json",
		Args: app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = app.First(args)
			return a.Action(func(ctx context.Context) error { return runHistory(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().IntVarP(&o.limit, "limit", "n", 20, "at most `N`, the newest; 0 for all")
	c.Flags().StringVar(&o.since, "since", "", "only what ended since `TIME`, "+app.AgeUsage)
	a.CompleteAge(c, "since")
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName, app.FormatWide)
	return c
}

// runHistory merges the substrates' records with the receipts of this machine.
func runHistory(ctx context.Context, a *app.App, o *historyOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	var since time.Duration
	var err error
	if o.since != "" {
		if since, err = a.Age("since", o.since); err != nil {
			return err
		}
	}
	list, err := pastRuns(ctx, a, o)
	if err != nil {
		return err
	}
	slices.SortFunc(list, func(x, y history.Past) int { return y.Ended.Compare(x.Ended) })
	if o.name != "" {
		list = slices.DeleteFunc(list, func(p history.Past) bool { return !app.RunOf(o.name, p.Name) })
	}
	if o.since != "" {
		list = slices.DeleteFunc(list, func(p history.Past) bool { return a.Now().Sub(p.Ended) > since })
	}
	sum, left := totalNodeSeconds(list), 0
	if o.limit > 0 && len(list) > o.limit {
		left, list = len(list)-o.limit, list[:o.limit]
	}
	if done, err := o.output.Structured(a.Out, terminal.NonNil(list)); done || err != nil {
		return err
	}
	rows := [][]string{{"NAME", "LAUNCHER", "ENDED", "TOOK", "NODE-SECONDS", "EXIT", "CAUSE", "COMMAND"}}
	wide, narrow := o.output.Format == app.FormatWide, o.output.Text() && terminal.Narrow(a.Out)
	if narrow { // what fits beside one another; -o wide has all
		rows[0] = []string{"NAME", "ENDED", "TOOK", "EXIT", "CAUSE", "COMMAND"}
	}
	if wide {
		rows[0] = append(rows[0], "BEGAN", "REASON")
	}
	for _, p := range list {
		if o.output.Format == app.FormatName {
			fmt.Fprintln(a.Out, terminal.OneLine(p.Name))
			continue
		}
		if narrow {
			rows = append(rows, []string{p.Name, terminal.Ago(a.Now(), p.Ended) + " ago", launcher.Human(p.Ended.Sub(p.Created).Seconds()), exitCode(p), terminal.OrDash(p.Exit.Cause), terminal.OrDash(terminal.Shorten(command(p), false))})
			continue
		}
		row := []string{p.Name, p.Launcher, terminal.Stamp(a.Out, p.Ended), launcher.Human(p.Ended.Sub(p.Created).Seconds()), nodeSeconds(p.Usage), exitCode(p), terminal.OrDash(p.Exit.Cause), terminal.OrDash(terminal.Shorten(command(p), wide))}
		if wide {
			row = append(row, terminal.Stamp(a.Out, p.Created), terminal.OrDash(p.Exit.Message))
		}
		rows = append(rows, row)
	}
	switch {
	case o.output.Format == app.FormatName:
		return nil
	case len(list) == 0 && o.name != "":
		a.UI.Note("nothing of the name %s has ended", o.name)
		return nil
	case len(list) == 0:
		a.UI.Note("nothing has ended yet")
		return nil
	}
	if err := terminal.Table(a.Out, rows); err != nil {
		return err
	}
	a.UI.Note("%s node-seconds in all", sum)
	noteRecords(a, list)
	if left > 0 {
		a.UI.Note("%d more: --limit %d lists them, too", left, left+len(list))
	}
	return nil
}

// noteRecords tells of runs without a record, or whose record was not looked for.
func noteRecords(a *app.App, list []history.Past) {
	var gone []string
	var elsewhere []string
	for _, p := range list {
		switch {
		case p.Elsewhere != "":
			elsewhere = append(elsewhere, p.Elsewhere)
		case !p.Record:
			gone = append(gone, p.Name)
		}
	}
	if len(gone) > 0 {
		a.UI.Note("the records of these do not exist any more, nor does their output: %s", someOf(gone))
	}
	if n := len(elsewhere); n > 0 {
		a.UI.Note("the records of %d of them were not looked for, because they are elsewhere (%s)", n, elsewhere[0])
	}
}

// someOf names the first of a list.
func someOf(names []string) string {
	const most = 5
	if n := len(names); n > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", n-most)
	}
	return strings.Join(names, ", ")
}

// totalNodeSeconds adds up those that are known.
func totalNodeSeconds(list []history.Past) string {
	var sum launcher.Usage
	for _, p := range list {
		if p.Usage != nil {
			sum.NodeSeconds += p.Usage.NodeSeconds
		}
	}
	return nodeSeconds(&sum)
}

// usedText is what a run used. What a cluster without a job of its own did for submitted jobs is not counted.
func usedText(s launcher.Status, what string, all, busy float64) string {
	if s.Job == nil {
		return fmt.Sprintf("%.0f %s-seconds", all, what)
	}
	return fmt.Sprintf("%.0f %s-seconds, %.0f of them by the driver", all, what, busy)
}

func nodeSeconds(u *launcher.Usage) string {
	if u == nil {
		return "-"
	}
	return strconv.FormatFloat(u.NodeSeconds, 'f', 0, 64)
}

// receiptOf is the receipt of an ended run; nil: the run has not ended, or nothing is known.
func receiptOf(ctx context.Context, c *app.Cluster, s launcher.Status) *launcher.Receipt {
	if !s.Phase.Ended() {
		return nil
	}
	r, err := c.Result(ctx)
	if err != nil {
		return nil
	}
	return launcher.NewReceipt(r)
}

// receiptRows show where an ended run's time went, and what it used.
func receiptRows(s launcher.Status, rc *launcher.Receipt) (rows [][]string) {
	if rc == nil {
		return nil
	}
	if rc.Durations.Total > 0 {
		rows = append(rows, []string{"time", rc.Durations.Text()})
	}
	rows = append(rows, []string{"used", usedText(s, "node", rc.Usage.NodeSeconds, rc.Usage.BusyNodeSeconds)})
	if rc.Usage.GPUSeconds > 0 {
		rows = append(rows, []string{"", usedText(s, "GPU", rc.Usage.GPUSeconds, rc.Usage.BusyGPUSeconds)})
	}
	return rows
}
