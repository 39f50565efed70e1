package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type lsOptions struct {
	config      app.ConfigFlags
	labels      []string
	owner       string
	all, others bool
	output      app.Output
}

// NewLs is `rayctl ls`.
func NewLs(a *app.App) *cobra.Command {
	o := &lsOptions{}
	c := &cobra.Command{
		Use:     "ls [-a] [-l KEY=VALUE] [--owner USER] [--others]",
		Aliases: []string{"list", "ps"},
		Short:   "List clusters",
		Long: "ls lists the clusters of the configured launcher, of this machine, and of the places where this machine launched clusters. With --launcher it lists\n" +
			"only those of that launcher. REASON is the reason for the phase, for example what a cluster waits for.",
		Example: "  rayctl ls\n  rayctl ls -a -o wide\n  rayctl ls -l team=rl -o json",
		Args:    app.NoDash(0, "no arguments"),
		RunE:    a.Action(func(ctx context.Context) error { return runLs(ctx, a, o) }),
	}
	o.config.AddSelection(c)
	f := c.Flags()
	f.StringArrayVarP(&o.labels, "selector", "l", nil, "only those with this label: `KEY=VALUE`")
	f.BoolVarP(&o.all, "all", "a", false, "also list ended clusters whose record still exists")
	f.StringVar(&o.owner, "owner", ownerAll, "of those listed, only those of this `USER`, me, or all")
	f.BoolVar(&o.others, "others", false, "also list Ray clusters that rayctl did not start, and on Slurm the rayctl clusters of other users")
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName, app.FormatWide)
	return c
}

// runLs queries every reachable launcher. An error of one is printed on stderr and sets the exit code; the others' clusters are shown.
func runLs(ctx context.Context, a *app.App, o *lsOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	labels, err := app.Pairs("-l", o.labels)
	if err != nil {
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
	var all []launcher.Status
	var failed error
	for _, l := range ls {
		found, err := l.List(ctx, launcher.Selector{Labels: labels, All: o.all, Others: o.others, Whole: true})
		if err != nil {
			failed = err
			continue
		}
		all = append(all, slices.DeleteFunc(found, func(s launcher.Status) bool { return !ownedBy(s, o.owner) })...)
	}
	slices.SortFunc(all, func(x, y launcher.Status) int { return y.Created.Compare(x.Created) })
	if failed != nil && len(all) == 0 {
		return failed
	}
	warnUnreachable(a, all)
	return errors.Join(printClusters(a, o, all), failed)
}

// warnUnreachable says once of each substrate that it does not answer: what is listed of its clusters is what was known last.
func warnUnreachable(a *app.App, all []launcher.Status) {
	told := map[string]bool{}
	for _, s := range all {
		if s.Unreachable != "" && !told[s.Unreachable] {
			told[s.Unreachable] = true
			a.UI.Warn("the clusters of launcher %s are listed as they were known last: %s", s.Launcher, s.Unreachable)
		}
	}
}

func printClusters(a *app.App, o *lsOptions, all []launcher.Status) error {
	if done, err := o.output.Structured(a.Out, terminal.NonNil(all)); done || err != nil {
		return err
	}
	wide := o.output.Format == app.FormatWide
	theirs := slices.ContainsFunc(all, func(s launcher.Status) bool { return s.Theirs })
	rows := [][]string{{"NAME", "LAUNCHER", "PHASE", "NODES", "JOB", "AGE"}}
	if wide || theirs {
		rows[0] = append(rows[0], "OWNER")
	}
	if wide {
		rows[0] = append(rows[0], "WHERE", "RAY", "LABELS")
	}
	rows[0] = append(rows[0], "REASON") // the last column is wrapped on a terminal
	for _, s := range all {
		if o.output.Format == app.FormatName {
			fmt.Fprintln(a.Out, terminal.OneLine(s.Name))
			continue
		}
		row := clusterRow(a, s)
		if wide || theirs {
			row = append(row, terminal.OrDash(s.Owner))
		}
		if wide {
			row = append(row, terminal.OrDash(s.Where), terminal.OrDash(s.Head.RayVersion), terminal.OrDash(labelText(s.Labels)))
		}
		rows = append(rows, append(row, terminal.OrDash(reason(s))))
	}
	switch {
	case o.output.Format == app.FormatName:
		return nil
	case len(all) == 0:
		a.UI.Note("there is no cluster: `rayctl history` lists those that have ended")
		return nil
	}
	return terminal.Table(a.Out, rows)
}

func notOurs(s launcher.Status) string {
	if s.Theirs {
		return " (another user's)"
	}
	return " (not rayctl's)"
}

func clusterRow(a *app.App, s launcher.Status) []string {
	ready, wanted := countNodes(s)
	name := s.Name
	if !s.Ours {
		name += notOurs(s)
	}
	phase := s.Phase.Word()
	if s.Uncommitted {
		phase = "Uncommitted"
	}
	return []string{name, s.Launcher, phase, fmt.Sprintf("%d/%d", ready, wanted), terminal.OrDash(jobStates(s)), terminal.Ago(a.Now(), s.Created)}
}

// reason is how a cluster ended, or why it is as it is.
func reason(s launcher.Status) string {
	if s.Exit != nil {
		return s.Exit.Sentence()
	}
	if s.Uncommitted {
		return uncommitted(s)
	}
	if s.Unreachable != "" {
		return strings.TrimSpace(s.Reason.Message + " [not reachable: " + s.Unreachable + "]")
	}
	return s.Reason.Message
}

// uncommitted is what can be done about a launch that its client has not finished.
func uncommitted(s launcher.Status) string {
	return "its client has not committed the launch, so it runs nothing: if that client has died, `rayctl down " + s.Name + "` removes it"
}

// jobStates are the state of the cluster's own job, or those of the jobs that were submitted to it: RUNNING; 2 RUNNING, 1 PENDING.
func jobStates(s launcher.Status) string {
	if s.Job != nil {
		return string(s.Job.State)
	}
	if len(s.Submissions) == 1 {
		return string(s.Submissions[0].State)
	}
	var parts []string
	for _, state := range []runstate.JobState{runstate.JobRunning, runstate.JobPending} {
		n := 0
		for _, j := range s.Submissions {
			if j.State == state {
				n++
			}
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return strings.Join(parts, ", ")
}

func labelText(labels map[string]string) string {
	var out []string
	for k, v := range labels {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
