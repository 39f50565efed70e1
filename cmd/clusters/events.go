package clusters

import (
	"context"
	"encoding/json"
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
		Long: "events shows the timeline of a cluster, also after its end: changes of its phase with their reasons, nodes that joined or were lost, jobs, attempts and\n" +
			"changes by `rayctl up`, `extend` and `scale`.",
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
	if done, err := o.output.Structured(a.Out, terminal.NonNil(s.Timeline)); done || err != nil {
		return err
	}
	if len(s.Timeline) == 0 {
		a.UI.Note("cluster %s has no events yet", c.ID)
		return nil
	}
	return eventTable(a.Out, s.Timeline)
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
		return printEvents(a, o, s.Timeline)
	}
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for s := range statuses {
		unseen := slices.DeleteFunc(slices.Clone(s.Timeline), func(e runstate.Event) bool { return seen[eventLine(e)] })
		if err := printEvents(a, o, unseen); err != nil {
			return err
		}
		for _, e := range unseen {
			seen[eventLine(e)] = true
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
			_, err = fmt.Fprintln(a.Out, eventLine(e))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func eventLine(e runstate.Event) string {
	return terminal.OneLine(strings.Join([]string{terminal.Stamp(e.At), e.Kind, e.To, eventMessage(e)}, " "))
}

// eventMessage is the message of an event, for people also of the commit, which has none.
func eventMessage(e runstate.Event) string {
	if e.Kind == "commit" && e.Message == "" {
		return "from here on the cluster does not need the client that launched it"
	}
	return e.Message
}
