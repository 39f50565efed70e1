package clusters

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

type extendOptions struct {
	config          app.ConfigFlags
	name            string
	max, by, atMost string
	idle            string
	output          app.Output
}

// NewExtend is `rayctl extend`.
func NewExtend(a *app.App) *cobra.Command {
	o := &extendOptions{}
	c := &cobra.Command{
		Use:   "extend [NAME] [+DURATION]",
		Short: "Change the time at which a cluster ends",
		Long: "extend changes the time at which the keeper ends a cluster. --max counts from now, --by from the present end; unlimited removes the limit.\n" +
			"--max and --by never make a cluster end earlier; only --at-most does. +DURATION is the same as --by DURATION. --idle sets a new limit for the time\n" +
			"without work, longer or shorter than before.",
		Example: "  rayctl extend dev +2h                # as --by 2h\n  rayctl extend dev --max 4h\n  rayctl extend dev --at-most 10m\n  rayctl extend dev --idle unlimited",
		Args:    app.NoDash(2, "a name and a +DURATION"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := o.arguments(args); err != nil {
				return err
			}
			return a.Action(func(ctx context.Context) error { return runExtend(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().StringVar(&o.max, "max", "", "end it this `DURATION` from now; refused if it would then end earlier than at present; 0 or unlimited: never")
	c.Flags().StringVar(&o.by, "by", "", "move its end to a later time by this `DURATION`")
	c.Flags().StringVar(&o.atMost, "at-most", "", "end it this `DURATION` from now, unless it already ends earlier")
	c.MarkFlagsMutuallyExclusive("max", "by", "at-most")
	c.Flags().StringVar(&o.idle, "idle", "", "end it after so long without work: `DURATION`; 0 or unlimited: never")
	o.output.Add(c, app.FormatJSON, app.FormatYAML)
	return c
}

// arguments are a name, +DURATION, or both.
func (o *extendOptions) arguments(args []string) error {
	if len(args) > 0 && strings.HasPrefix(args[len(args)-1], "+") {
		if o.max != "" || o.by != "" || o.atMost != "" {
			return app.UsageError("give one of them", "%s is the same as --by, and cannot be used with --max, --by or --at-most", args[len(args)-1])
		}
		o.by, args = strings.TrimPrefix(args[len(args)-1], "+"), args[:len(args)-1]
		if o.by == "" {
			return app.UsageError("write it like +2h", "+ needs a duration")
		}
	}
	if len(args) > 1 {
		if _, err := units.ParseDuration(args[1]); err == nil {
			return app.UsageError("write `rayctl extend "+shellescape.QuoteCommand([]string{args[0], "+" + args[1]})+"`", "%q does not say whether the cluster ends later by it", args[1])
		}
		return app.UsageError("write it like +2h", "%q is not a duration by which the cluster ends later", args[1])
	}
	if len(args) == 1 && o.max == "" && o.by == "" && o.atMost == "" && o.idle == "" {
		if _, err := units.ParseDuration(args[0]); err == nil {
			return app.UsageError("`rayctl extend NAME +"+args[0]+"` lets a cluster end later by it", "%q is a duration, and no cluster's name", args[0])
		}
	}
	o.name = app.First(args)
	return nil
}

// runExtend sends new limits to the keeper and prints the resulting ones.
func runExtend(ctx context.Context, a *app.App, o *extendOptions) error {
	if err := o.output.Validate(); err != nil {
		return err
	}
	request, err := o.request()
	if err != nil {
		return err
	}
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config})
	if err != nil {
		return err
	}
	var state *runstate.State
	err = a.AskKeeper(ctx, c, func(k *keeper.Client) error { state, err = k.Extend(ctx, request); return err })
	if err != nil {
		return o.refusal(err)
	}
	if request.Max != nil || request.MaxBy != nil { // only the keeper applies idle
		if err := c.Launcher.Extended(ctx, c.ID, state.Deadlines); err != nil {
			return err
		}
	}
	if done, err := o.output.Structured(a.Out, state.Deadlines); done || err != nil {
		return err
	}
	d := state.Deadlines
	if d.Max == nil && d.Idle == nil && d.Total == nil {
		_, err = fmt.Fprintf(a.Out, "%s has no limit: it runs until it is ended\n", c.ID)
		return err
	}
	for _, l := range limits(d) {
		fmt.Fprintf(a.Out, "%s ends at %s%s\n", c.ID, terminal.Stamp(a.Out, *l.at), l.text())
	}
	return nil
}

// limit is a moment at which the keeper will end a cluster.
type limit struct {
	name string
	at   *time.Time
}

// limits of a cluster, the earliest first.
func limits(d runstate.Deadlines) []limit {
	all := []limit{{"max", d.Max}, {"idle", d.Idle}, {"total", d.Total}, {"idleGpu", d.IdleGPU}}
	all = slices.DeleteFunc(all, func(l limit) bool { return l.at == nil })
	slices.SortStableFunc(all, func(x, y limit) int { return x.at.Compare(*y.at) })
	return all
}

// reachable are the limits that can end the cluster: lifetime.idle only ever becomes later, so that nothing after lifetime.max or lifetime.total counts.
func reachable(d runstate.Deadlines) []limit {
	all := limits(d)
	for i, l := range all {
		if l.name == "max" || l.name == "total" {
			return all[:i+1]
		}
	}
	return all
}

// text is what follows the moment in a sentence.
func (l limit) text() string {
	if l.name == "idleGpu" {
		return " if its GPUs do nothing until then (lifetime.idleGpu)"
	}
	if l.name == "idle" {
		return " if nothing runs on it until then (lifetime.idle; `--idle DURATION` sets it anew)"
	}
	return " (lifetime." + l.name + ")"
}

// row is the moment in the account of a cluster; busy: a job runs, so that lifetime.idle begins anew all the time.
func (l limit) row(w io.Writer, now time.Time, busy bool) string {
	at, in := terminal.Stamp(w, *l.at), launcher.Human(max(l.at.Sub(now).Seconds(), 0))
	switch {
	case l.name == "idle" && busy:
		return "at " + at + " at the earliest, as a job runs: lifetime.idle counts from the end of the last job or request"
	case l.name == "idle":
		return at + " if no job or request comes until then (lifetime.idle, in " + in + ")"
	}
	return at + " (lifetime." + l.name + ", in " + in + ")"
}

func (o *extendOptions) request() (keeper.Extend, error) {
	var e keeper.Extend
	var err error
	if o.max == "" && o.by == "" && o.atMost == "" && o.idle == "" {
		return e, app.UsageError("", "give +DURATION, --max, --by, --at-most or --idle")
	}
	if e.Max, err = limitSeconds("--max", o.max); err != nil {
		return e, err
	}
	e.Later = e.Max != nil
	if o.atMost != "" {
		if e.Max, err = duration("--at-most", o.atMost); err != nil {
			return e, err
		}
		e.AtMost = true
	}
	if o.by != "" {
		if e.MaxBy, err = duration("--by", o.by); err != nil {
			return e, err
		}
	}
	e.Idle, err = limitSeconds("--idle", o.idle)
	return e, err
}

// refusal is the keeper's, with the flag that does what was meant.
func (o *extendOptions) refusal(err error) error {
	why, refused := keeper.Refusal(err)
	switch {
	case !refused:
		return err
	case o.max != "":
		return app.UsageError("`--at-most "+o.max+"` does that, `--by DURATION` moves the end", "--max %s: %s", o.max, why)
	case o.by != "":
		return app.UsageError("`--at-most DURATION` sets one", "--by %s: %s", o.by, why)
	default:
		return app.UsageError("", "--idle: %s", why)
	}
}

// duration parses a limit that is one.
func duration(flag, text string) (*float64, error) {
	seconds, err := limitSeconds(flag, text)
	if err == nil && *seconds <= 0 {
		return nil, app.UsageError("write it like 2h", "%s takes a duration, not %q", flag, text)
	}
	return seconds, err
}

// limitSeconds parses a limit for the keeper: nil keeps it, 0 removes it.
func limitSeconds(flag, text string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	var l units.Limit
	if err := l.UnmarshalText([]byte(text)); err != nil {
		return nil, app.UsageError("", "%s: %v", flag, err)
	}
	d, _ := l.Bound()
	seconds := d.Seconds()
	if l == units.NoLimit {
		seconds = 0
	}
	return &seconds, nil
}
