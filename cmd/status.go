package cmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

type statusOptions struct {
	config configOptions
	name   string
	watch  bool
	output output
}

func newStatus(a *App) *cobra.Command {
	o := &statusOptions{}
	c := &cobra.Command{
		Use:     "status [NAME] [-w]",
		Short:   "Show one cluster: phase and reason, nodes, job, deadlines, timeline",
		Example: "  rayctl status\n  rayctl status dev -w\n  rayctl status grpo-x1f3a -o json",
		Args:    noDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = first(args)
			return a.action(func(ctx context.Context) error { return runStatus(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.completeClusters,
	}
	o.config.addSelection(c)
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "print each change until the cluster is gone")
	o.output.add(c, formatJSON, formatYAML, formatName)
	return c
}

// runStatus shows a cluster once, or each change of it.
func runStatus(ctx context.Context, a *App, o *statusOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	c, err := a.find(ctx, findOptions{name: o.name, config: &o.config, ended: true})
	if err != nil {
		return err
	}
	if o.watch {
		return a.watchStatus(ctx, o, c)
	}
	s, err := c.status(ctx)
	if err != nil {
		return err
	}
	if done, err := o.output.structured(a.Out, s); done || err != nil {
		return err
	}
	if o.output.format == formatName {
		_, err := fmt.Fprintln(a.Out, s.Name)
		return err
	}
	return a.printStatus(a.Out, s)
}

// watchStatus prints a line (with -o json: a JSON document) for each change.
func (a *App) watchStatus(ctx context.Context, o *statusOptions, c *cluster) error {
	statuses, err := c.l.Watch(ctx, c.id)
	if errors.Is(err, launcher.ErrNotFound) {
		s, serr := c.status(ctx)
		if serr != nil {
			return err
		}
		return a.printChange(o, s, "")
	}
	if err != nil {
		return err
	}
	last := ""
	for s := range statuses {
		if err := a.printChange(o, s, last); err != nil {
			return err
		}
		last = changeLine(s)
	}
	if interrupted(ctx) {
		return exitCode(runstate.CodeInterrupted)
	}
	return nil
}

func (a *App) printChange(o *statusOptions, s launcher.Status, last string) error {
	switch o.output.format {
	case formatJSON:
		return json.NewEncoder(cleanJSON(a.Out)).Encode(s)
	case formatYAML:
		fmt.Fprintln(a.Out, "---")
		return writeYAML(a.Out, s)
	}
	line := changeLine(s)
	if line == last {
		return nil
	}
	_, err := fmt.Fprintf(a.Out, "%s  %s\n", stamp(a.Now()), line)
	return err
}

func changeLine(s launcher.Status) string {
	ready, wanted := countNodes(s)
	line := fmt.Sprintf("%s  %d/%d nodes", phaseLine(s), ready, wanted)
	if s.Job != nil {
		line += "  job " + string(s.Job.State)
	}
	if s.Exit != nil {
		line += "  " + s.Exit.Sentence()
	}
	return oneLine(line)
}

// howStarted describes for people how Ray was started.
func howStarted(fast bool) string {
	if fast {
		return "fast: rayctl changed functions inside it (ray.fastStart)"
	}
	return "as Ray has it (ray.fastStart: false, or a Ray version that rayctl was not tested with)"
}

func (a *App) printStatus(w io.Writer, s launcher.Status) error {
	now := a.Now()
	ready, wanted := countNodes(s)
	rows := [][]string{
		{"name", s.Name},
		{"launcher", s.Launcher + " " + s.Where},
		{"phase", phaseLine(s) + " (" + ago(now, s.Since) + ")"},
		{"nodes", fmt.Sprintf("%d of %d ready", ready, wanted)},
	}
	if s.Head.RayVersion != "" {
		rows = append(rows, []string{"ray", s.Head.RayVersion + "  " + s.Head.Dashboard})
		if a.verbose {
			rows = append(rows, []string{"ray start", howStarted(s.Head.FastStart)})
		}
	}
	if s.Attempt > 1 {
		rows = append(rows, []string{"attempt", strconv.Itoa(s.Attempt)})
	}
	if s.Job != nil {
		rows = append(rows, []string{"job", fmt.Sprintf("%s %s %s", s.Job.SubmissionID, s.Job.State, s.Job.Message)})
	}
	for _, d := range []struct {
		name string
		at   *time.Time
	}{{"max", s.Deadlines.Max}, {"idle", s.Deadlines.Idle}, {"total", s.Deadlines.Total}} {
		if d.at != nil && !s.Phase.Ended() {
			rows = append(rows, []string{"ends", fmt.Sprintf("%s (lifetime.%s, in %s)", stamp(*d.at), d.name, launcher.Human(max(d.at.Sub(now).Seconds(), 0)))})
		}
	}
	if s.EndOnDisconnect > 0 && !s.Phase.Ended() {
		rows = append(rows, []string{"ends", launcher.Human(s.EndOnDisconnect) + " after the last `rayctl run` that watches it (--end-on-disconnect)"})
	}
	if s.Exit != nil {
		rows = append(rows, []string{"exit", s.Exit.Sentence()})
	}
	if err := table(w, rows); err != nil {
		return err
	}
	return a.printDetails(w, s)
}

func (a *App) printDetails(w io.Writer, s launcher.Status) error {
	if len(s.Nodes) > 0 {
		rows := [][]string{{"NODE", "STATE", "HOST", "MESSAGE"}}
		for _, n := range s.Nodes {
			rows = append(rows, []string{n.Name, n.State, orDash(n.Host), n.Message})
		}
		fmt.Fprintln(w)
		if err := table(w, rows); err != nil {
			return err
		}
	}
	if len(s.Timeline) > 0 {
		rows := [][]string{{"TIME", "EVENT", "TO", "MESSAGE"}}
		for _, e := range s.Timeline {
			rows = append(rows, []string{stamp(e.At), e.Kind, e.To, e.Message})
		}
		fmt.Fprintln(w)
		return table(w, rows)
	}
	return nil
}
