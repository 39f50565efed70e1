package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// eventAllocation is of a node of an elastic group: To is the state of its allocation, Code its id.
const eventAllocation = "allocation"

type eventsOptions struct {
	config app.ConfigFlags
	name   string
	watch  bool
	output app.Output
}

// NewEvents is `rayctl events`.
func NewEvents(a *app.App) *cobra.Command {
	o := &eventsOptions{}
	c := &cobra.Command{
		Use:   "events [NAME] [-w]",
		Short: "Show what happened to a cluster, one event on a line",
		Long: "events shows the timeline of a cluster, also after its end: changes of its phase with their reasons, nodes of elastic groups that came and went, nodes that\n" +
			"were lost, jobs, attempts and changes by `rayctl up`, `extend` and `scale`.",
		Example: "  rayctl events\n  rayctl events dev -w\n  rayctl events grpo-x1f3a -o json",
		Args:    app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			o.name = app.First(args)
			return a.Action(func(ctx context.Context) error { return runEvents(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().BoolVarP(&o.watch, "watch", "w", false, "print each event as it happens, until the cluster has ended")
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// runEvents prints the events so far, or each as it happens.
func runEvents(ctx context.Context, a *app.App, o *eventsOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config, Ended: true})
	if err != nil {
		return err
	}
	if o.watch {
		return watchEvents(ctx, a, o, c)
	}
	s, err := c.Status(ctx)
	if err != nil {
		return err
	}
	events := eventsOf(s)
	for _, f := range s.FormerAllocations {
		a.UI.Note("%d more nodes of group %s came and went before those that are listed", f.Count, f.Group)
	}
	if done, err := o.output.Structured(a.Out, terminal.NonNil(events)); done || err != nil {
		return err
	}
	if len(events) == 0 {
		a.UI.Note("cluster %s has no events yet", c.ID)
		return nil
	}
	return eventTable(a.Out, events)
}

// eventsOf is the timeline with the nodes of elastic groups, which are not in it because their number has no bound: a state has the last of them as allocations.
func eventsOf(s launcher.Status) []runstate.Event {
	events := slices.Clone(s.Timeline)
	for _, a := range runstate.Of(s.Allocations, runstate.PurposeElastic) {
		add := func(at *time.Time, to, message string) {
			if at != nil {
				events = append(events, runstate.Event{At: *at, Kind: eventAllocation, To: to, Code: a.ID, Message: strings.Trim(a.ID+": "+message, ": ")})
			}
		}
		waited := a.Queued != nil && (a.Granted == nil || a.Granted.After(*a.Queued))
		if waited {
			add(a.Queued, runstate.AllocationQueued, "")
		}
		add(a.Granted, runstate.AllocationGranted, a.Where)
		add(a.Released, runstate.AllocationReleased, a.Message)
	}
	slices.SortStableFunc(events, func(x, y runstate.Event) int { return x.At.Compare(y.At) })
	return events
}

// watchEvents prints a line (with -o json: a JSON document) for each event that a status has more than the one before. An event of the past that arrives
// late, as those of a keeper that did not answer, is printed when it arrives.
func watchEvents(ctx context.Context, a *app.App, o *eventsOptions, c *app.Cluster) error {
	statuses, err := c.Launcher.Watch(ctx, c.ID)
	if errors.Is(err, launcher.ErrNotFound) { // it has ended, and only its record is there
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		return printEvents(a, o, eventsOf(s))
	}
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for s := range statuses {
		unseen := slices.DeleteFunc(eventsOf(s), func(e runstate.Event) bool { return seen[eventLine(a.Out, e)] })
		if err := printEvents(a, o, unseen); err != nil {
			return err
		}
		for _, e := range unseen {
			seen[eventLine(a.Out, e)] = true
		}
	}
	if app.Interrupted(ctx) {
		return app.Exit(runstate.CodeInterrupted)
	}
	return nil
}

func printEvents(a *app.App, o *eventsOptions, events []runstate.Event) error {
	for _, e := range events {
		var err error
		switch o.output.Format {
		case app.FormatJSON:
			err = json.NewEncoder(terminal.CleanJSON(a.Out)).Encode(e)
		case app.FormatYAML:
			fmt.Fprintln(a.Out, "---")
			err = terminal.WriteYAML(a.Out, e)
		default:
			err = terminal.WriteLine(a.Out, eventLine(a.Out, e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func eventLine(w io.Writer, e runstate.Event) string {
	return terminal.OneLine(strings.Join([]string{terminal.Stamp(w, e.At), e.Kind, eventTo(e), eventMessage(e)}, " "))
}

// eventTo is the new state for people.
func eventTo(e runstate.Event) string {
	if e.Kind == runstate.EventPhase {
		return runstate.Phase(e.To).Word()
	}
	return e.To
}

// eventMessage is the message of an event, for people also of the commit, which has none.
func eventMessage(e runstate.Event) string {
	if e.Kind == "commit" && e.Message == "" {
		return "from here on the cluster does not need the client that launched it"
	}
	return e.Message
}

func eventTable(w io.Writer, events []runstate.Event) error {
	rows := [][]string{{"TIME", "EVENT", "TO", "MESSAGE"}}
	for _, e := range events {
		rows = append(rows, []string{terminal.Stamp(w, e.At), e.Kind, eventTo(e), eventMessage(e)})
	}
	return terminal.Table(w, rows)
}
