package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/served"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type statusOptions struct {
	config app.ConfigFlags
	name   string
	watch  bool
	output app.Output
}

// NewStatus is `rayctl status`.
func NewStatus(a *app.App) *cobra.Command {
	o := &statusOptions{}
	c := &cobra.Command{
		Use:     "status [NAME] [-w]",
		Aliases: []string{"info", "describe"},
		Short:   "Show one cluster: phase and reason, nodes, job, timeline",
		Long:    "status shows one cluster, also after its end. A ready one is asked for its jobs and its applications of Ray Serve. In place of NAME it takes the directory of a run that another user shares (job.shareDir).",
		Example: "  rayctl status\n  rayctl status dev -w\n  rayctl status grpo-x1f3a -o json\n  rayctl status /shared/team/grpo-x1f3a",
		Args:    app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = app.First(args)
			return a.Action(func(ctx context.Context) error { return runStatus(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "print each change until the cluster has ended")
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// runStatus shows a cluster once, or each change of it.
func runStatus(ctx context.Context, a *app.App, o *statusOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config, Ended: true, Shared: true})
	if err != nil {
		return err
	}
	if o.watch {
		return watchStatus(ctx, a, o, c)
	}
	s, rc, err := statusOf(ctx, a, c)
	if err != nil {
		return err
	}
	if o.output.Format == app.FormatName {
		_, err := fmt.Fprintln(a.Out, terminal.OneLine(s.Name))
		return err
	}
	if rc == nil {
		rc = receiptOf(ctx, c, s)
	}
	if gaps := missingOutput(s, rc); s.Job != nil && len(gaps) > 0 { // the record has them where the last status does not
		job := *s.Job
		job.Missing, s.Job = gaps, &job
	}
	now := served.Ask(ctx, a, c, s)
	if done, err := o.output.Structured(a.Out, now); done || err != nil {
		return err
	}
	return printStatus(a, a.Out, now, rc)
}

// statusOf is a cluster's status. While nobody answers who has it, the end that this machine has seen is the end: then rc is its receipt, else nil.
func statusOf(ctx context.Context, a *app.App, c *app.Cluster) (s launcher.Status, rc *launcher.Receipt, err error) {
	if s, err = c.Status(ctx); launcher.ExitCode(err) != runstate.CodeUnreachable {
		return s, nil, err
	}
	if rc = a.SeenEnd(c.Launcher.Name(), string(c.ID)); rc == nil {
		return s, nil, err
	}
	s = rc.Status()
	s.Unreachable = app.Sentence(err)
	return s, rc, nil
}

// watchStatus prints a line (with -o json: a JSON document) for each change.
func watchStatus(ctx context.Context, a *app.App, o *statusOptions, c *app.Cluster) error {
	statuses, err := c.Launcher.Watch(ctx, c.ID)
	if errors.Is(err, launcher.ErrNotFound) || launcher.ExitCode(err) == runstate.CodeUnreachable {
		s, _, serr := statusOf(ctx, a, c)
		if serr != nil {
			return err
		}
		return printChange(a, o, s, "")
	}
	if err != nil {
		return err
	}
	last, seen := "", -1
	for s := range statuses {
		if seen >= 0 && o.output.Text() {
			if err := printPassed(a, s, seen); err != nil {
				return err
			}
		}
		if err := printChange(a, o, s, last); err != nil {
			return err
		}
		last, seen = changeLine(s), len(s.Timeline)
	}
	if app.Interrupted(ctx) {
		return app.Exit(runstate.CodeInterrupted)
	}
	return nil
}

// printPassed prints the phases and the states of the job that passed between two statuses: those of the timeline behind what was seen, up to the present one.
func printPassed(a *app.App, s launcher.Status, seen int) error {
	for _, e := range s.Timeline[min(seen, len(s.Timeline)):] {
		what := ""
		switch {
		case e.Kind == runstate.EventPhase && e.To != string(s.Phase):
			what = eventTo(e)
		case e.Kind == runstate.EventJob && (s.Job == nil || e.To != string(s.Job.State)):
			what = "job " + e.To
		default:
			continue
		}
		if err := terminal.WriteLine(a.Out, terminal.Stamp(a.Out, e.At)+"  "+what); err != nil {
			return err
		}
	}
	return nil
}

func printChange(a *app.App, o *statusOptions, s launcher.Status, last string) error {
	switch o.output.Format {
	case app.FormatJSON:
		return json.NewEncoder(terminal.CleanJSON(a.Out)).Encode(s)
	case app.FormatYAML:
		fmt.Fprintln(a.Out, "---")
		return terminal.WriteYAML(a.Out, s)
	}
	line := changeLine(s)
	if line == last {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", terminal.Stamp(a.Out, a.Now()), line)
	return err
}

func changeLine(s launcher.Status) string {
	ready, wanted := countNodes(s)
	line := fmt.Sprintf("%s  %d/%d nodes", app.PhaseLine(s), ready, wanted)
	if states := jobStates(s); states != "" {
		line += "  job " + states
	}
	if s.Exit != nil {
		line += "  " + s.Exit.Sentence()
	}
	return terminal.OneLine(line)
}

// dashboardText is the command that opens the dashboard. Its own address needs the cluster's token, and may be on another machine.
func dashboardText(s launcher.Status) string {
	if s.Ours {
		return "`rayctl dashboard " + s.Name + "`"
	}
	return terminal.OrDash(s.Head.Dashboard)
}

// howStarted describes for people how Ray was started.
func howStarted(fast bool) string {
	if fast {
		return "fast: rayctl changed functions inside it (ray.fastStart)"
	}
	return "unchanged (ray.fastStart: false, or a Ray version that rayctl was not tested with)"
}

// printStatus prints a cluster for people. rc: of an ended run, or nil.
func printStatus(a *app.App, w io.Writer, of served.Status, rc *launcher.Receipt) error {
	s, now := of.Status, a.Now()
	ready, wanted := countNodes(s)
	rows := [][]string{
		{"name", s.Name},
		{"launcher", s.Launcher + " " + s.Where},
		{"phase", app.PhaseLine(s) + " (" + since(w, now, s) + ")"},
	}
	if s.Uncommitted {
		rows = append(rows, []string{"launch", uncommitted(s)})
	}
	if !s.Phase.Ended() {
		rows = append(rows, []string{"nodes", fmt.Sprintf("%d of %d ready", ready, wanted)})
	}
	if s.Head.RayVersion != "" {
		rows = append(rows, []string{"ray", s.Head.RayVersion})
		if !s.Phase.Ended() {
			rows = append(rows, []string{"dashboard", dashboardText(s)})
		}
		if a.Verbose {
			rows = append(rows, []string{"ray start", howStarted(s.Head.FastStart)})
		}
	}
	if s.Attempt > 1 {
		rows = append(rows, []string{"attempt", strconv.Itoa(s.Attempt)})
	}
	if s.Job.Prepares() {
		rows = append(rows, []string{"prepare", fmt.Sprintf("%s %s %s", s.Job.Prepare.SubmissionID, s.Job.Prepare.State, s.Job.Prepare.Message)})
	}
	if s.Job != nil {
		rows = append(rows, []string{"job", fmt.Sprintf("%s %s %s", s.Job.SubmissionID, s.Job.State, s.Job.Message)})
	}
	if s.Job != nil && s.Job.State == runstate.JobPending && s.Job.Reserves != "" {
		rows = append(rows, []string{"waits for", "a node with " + s.Job.Reserves + " free"})
	}
	if s.Job != nil && s.Job.Entrypoint != "" {
		rows = append(rows, []string{"command", terminal.Shorten(driverio.UserCommand(s.Job.Entrypoint), false)})
	}
	if s.Output() != "" {
		rows = append(rows, []string{"output", s.Output()})
	}
	for _, m := range missingOutput(s, rc) {
		rows = append(rows, []string{"log", launcher.MissingOutput(m)})
	}
	for _, j := range s.Submissions {
		rows = append(rows, []string{"job", fmt.Sprintf("%s %s %s", j.SubmissionID, j.State, terminal.Shorten(driverio.UserCommand(j.Entrypoint), false))})
		if j.WaitsFor != "" {
			rows = append(rows, []string{"waits for", j.WaitsFor})
		}
	}
	if s.EndedSubmissions != nil {
		rows = append(rows, []string{"ended jobs", endedJobs(s.EndedSubmissions)})
	}
	for _, serving := range of.Applications {
		rows = append(rows, []string{"serve", strings.TrimSpace(fmt.Sprintf("%s %s %s", serving.Name, serving.Status, serving.URL))})
	}
	rows = append(rows, endRows(w, s, now)...)
	if s.Exit != nil {
		rows = append(rows, []string{"exit", exitText(s)})
	}
	rows = append(rows, receiptRows(s, rc)...)
	if err := terminal.Table(w, rows); err != nil {
		return err
	}
	if a.Verbose && len(s.GPUs) > 0 {
		fmt.Fprintln(w)
		if err := gpuTable(w, s.GPUs); err != nil {
			return err
		}
	}
	return printDetails(w, s, a.Verbose)
}

// missingOutput are the gaps of the saved output: of a living run so far, else as the receipt rc has them.
func missingOutput(s launcher.Status, rc *launcher.Receipt) [][2]int64 {
	if rc != nil {
		return rc.Log.Missing
	}
	if s.Job != nil {
		return s.Job.Missing
	}
	return nil
}

// since is how long a cluster has been in its phase, or when it ended.
func since(w io.Writer, now time.Time, s launcher.Status) string {
	if s.Phase.Ended() {
		return "at " + terminal.Stamp(w, s.Since)
	}
	return terminal.Ago(now, s.Since)
}

// endRows list the limits that will end a running cluster, the earliest first.
func endRows(w io.Writer, s launcher.Status, now time.Time) (rows [][]string) {
	if s.Phase.Ended() {
		return nil
	}
	var texts []string
	for _, l := range reachable(s.Deadlines) {
		texts = append(texts, l.row(w, now, runningJobs(s) > 0))
	}
	if s.EndOnDisconnect > 0 {
		texts = append(texts, launcher.Human(s.EndOnDisconnect)+" after the last `rayctl run` that watches it (--end-on-disconnect)")
	}
	label := "ends"
	for _, text := range texts {
		rows = append(rows, []string{label, text})
		label = "or"
	}
	return rows
}

// exitText is how a cluster ended, with the exit code where it had a job.
func exitText(s launcher.Status) string {
	text := s.Exit.Sentence()
	if s.Job == nil || strings.Contains(text, "exit code") {
		return text
	}
	return fmt.Sprintf("%s (exit code %d)", text, s.Exit.Code)
}

// printDetails lists the parts of a cluster. A single allocation, that of all nodes, is left out, because the phase shows the same.
func printDetails(w io.Writer, s launcher.Status, verbose bool) error {
	if len(s.Nodes) > 0 {
		rows := [][]string{{"NODE", "STATE", "HOST", "MESSAGE"}}
		for _, n := range s.Nodes {
			rows = append(rows, []string{n.Name, n.State, terminal.OrDash(n.Host), n.Message})
		}
		fmt.Fprintln(w)
		if err := terminal.Table(w, rows); err != nil {
			return err
		}
	}
	elastic := slices.ContainsFunc(s.Groups, runstate.Group.Elastic)
	if (elastic || verbose) && len(s.Groups) > 0 {
		fmt.Fprintln(w)
		if err := groupTable(w, s.Groups); err != nil {
			return err
		}
	}
	others := slices.ContainsFunc(s.Allocations, func(a runstate.Allocation) bool { return a.Purpose != runstate.PurposeMain })
	if others || verbose && len(s.Allocations) > 0 {
		fmt.Fprintln(w)
		if err := allocationTable(w, s.Allocations); err != nil {
			return err
		}
	}
	if len(s.Timeline) > 0 {
		fmt.Fprintln(w)
		return eventTable(w, s.Timeline)
	}
	return nil
}
