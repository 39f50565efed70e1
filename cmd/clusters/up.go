package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"al.essio.dev/pkg/shellescape"
	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

type upOptions struct {
	config     app.ConfigFlags
	disconnect disconnectFlag
	detach     bool
	recreate   bool
	dryRun     bool
	output     app.Output
	begun      time.Time
}

// NewUp is `rayctl up`.
func NewUp(a *app.App) *cobra.Command {
	o := &upOptions{}
	c := &cobra.Command{
		Use:   "up [NAME] [-f FILE] [flags]",
		Short: "Start a cluster that stays, and wait until it is ready",
		Long: "up creates the cluster that the cluster file describes, without its job, and returns once every node is there. The same command again finds the same\n" +
			"cluster. If the file has changed, up applies the changes that are possible on a running cluster (limits of its lifetime, sizes of elastic groups:\n" +
			"`rayctl help cluster-file`) and prints them. Any other change is an error that lists the differences; --recreate replaces the cluster instead.\n" +
			"The cluster ends by itself after 1 h without work and after 12 h, unless lifetime.idle and lifetime.max set other limits.",
		Example: "  rayctl up\n  rayctl up dev --workers 2 --cpus-per-worker 4\n  rayctl up --set lifetime.idle=4h",
		Args:    app.NoDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := app.FileNotName(c, args[0]); err != nil {
					return err
				}
				if err := o.config.Flags.Set("name", args[0]); err != nil {
					return err
				}
			}
			return runUp(c.Context(), a, o)
		},
	}
	o.config.AddUp(c)
	o.disconnect.add(c, "never")
	c.Flags().BoolVarP(&o.detach, "detach", "d", false, "return once the launch is committed")
	c.Flags().BoolVar(&o.recreate, "recreate", false, "replace a cluster of that name")
	c.Flags().BoolVar(&o.dryRun, "dry-run", false, "only show what would be launched or changed")
	c.MarkFlagsMutuallyExclusive("dry-run", "recreate")
	o.output.Add(c, app.FormatJSON, app.FormatYAML, app.FormatName)
	return c
}

// runUp makes a cluster and waits until it is ready; an interrupt before that ends it.
func runUp(ctx context.Context, a *app.App, o *upOptions) error {
	o.begun = a.Now()
	if err := o.output.Validate(); err != nil {
		return err
	}
	c, l, err := loadUp(a, o)
	if err != nil {
		return err
	}
	addServe(ctx, a, l, c, o.recreate)
	payload, err := newPayload(a, c.Spec, "rayctl up")
	if err != nil {
		return err
	}
	if payload.EndOnDisconnect, err = o.disconnect.value(a, false); err != nil {
		return err
	}
	if payload.DryRun = o.dryRun; o.dryRun {
		return dryUp(ctx, a, o, l, c, payload)
	}
	id := launcher.ID(c.Spec.Name)
	if o.recreate || isNew(ctx, a, l, c.Spec) {
		a.UI.Note("Starting cluster %s %s (%s)", a.UI.Paint(terminal.Bold, c.Spec.Name), c.On(), c.Reason)
	}
	a.NoteUnused(c.Spec, l)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.recreate {
		if err := replace(ctx, a, l, c.Spec, &payload); err != nil {
			return err
		}
	}
	a.RememberLaunch(c)
	actions := watchSignals(ctx, a, interruptStop, noDriver)
	keep := rememberRefused(a, c.Spec)
	opts := launcher.RunOptions{Actions: actions, OnRefused: func(err error) { keep(err) }, Detach: true, Logger: a.Logger()}
	outcome, err := launcher.Run(ctx, l, c.Spec, payload, opts)
	if errors.Is(err, launcher.ErrEnded) && worthless(ctx, l, id) {
		if err := forget(ctx, a, l, id); err != nil {
			return err
		}
		outcome, err = launcher.Run(ctx, l, c.Spec, payload, opts)
	}
	switch {
	case errors.Is(err, launcher.ErrConflict):
		if err := upChanged(ctx, a, l, c); err != nil {
			return err
		}
	case err != nil:
		return err
	case !outcome.Detached:
		return endedEarly(id, outcome.Receipt.Exit)
	}
	if o.detach {
		s, err := (&app.Cluster{Launcher: l, ID: id}).Status(ctx)
		if err != nil {
			return err
		}
		return answerUp(a, o, c.File, s)
	}
	ready, err := untilReady(ctx, a, l, id, actions)
	if err != nil {
		return err
	}
	return answerUp(a, o, c.File, ready)
}

// addServe gives a new cluster Ray Serve, where its config is there. A living cluster is used as it is, with Serve or without.
func addServe(ctx context.Context, a *app.App, l launcher.Launcher, c *config.Loaded, recreate bool) {
	file, undo := app.AddServe(c)
	if file == "" {
		return
	}
	if _, err := newChange(ctx, a, l, c.Spec); !recreate && errors.Is(err, launcher.ErrConflict) {
		undo()
		return
	}
	a.UI.Note("The environment has Ray Serve, because there is %s", file)
}

// isNew reports whether up starts a cluster, as far as that can be seen before the launch: a living one is used again or refused, and the record of a run
// is not replaced.
func isNew(ctx context.Context, a *app.App, l launcher.Launcher, s *spec.ClusterSpec) bool {
	_, err := newChange(ctx, a, l, s)
	if errors.Is(err, launcher.ErrEnded) {
		return worthless(ctx, l, launcher.ID(s.Name))
	}
	return err != nil && !errors.Is(err, launcher.ErrConflict)
}

// worthless reports whether the record of an ended cluster may be removed without asking: it has neither output nor outcome of a job.
func worthless(ctx context.Context, l launcher.Launcher, id launcher.ID) bool {
	r, err := l.Result(ctx, id)
	return errors.Is(err, launcher.ErrNotFound) || err == nil && r.Job == nil
}

// loadUp reads the configuration for a cluster without a job.
func loadUp(a *app.App, o *upOptions) (*config.Loaded, launcher.Launcher, error) {
	c, err := a.Load(&o.config, config.Options{Up: true})
	if err != nil {
		return nil, nil, err
	}
	if err := c.ReadPackages(false); err != nil {
		return nil, nil, err
	}
	if err := app.CheckTemplate(c.Spec); err != nil {
		return nil, nil, err
	}
	c.Spec.Job = config.JobOfUp(c.Spec)
	l, err := a.Launcher(c)
	return c, l, err
}

// untilReady watches until every node is there. A request to stop ends the cluster; a request to detach leaves it running.
func untilReady(ctx context.Context, a *app.App, l launcher.Launcher, id launcher.ID, actions <-chan launcher.Action) (launcher.Status, error) {
	var none launcher.Status
	statuses, err := launcher.WatchAndReconcile(ctx, l, id, a.Logger())
	if err != nil {
		return none, err
	}
	watch, offers := app.NewWatcher(a.UI), launcher.NewOffers(l, id, a.Logger())
	ending := make(chan error, 2)
	for {
		select {
		case s, open := <-statuses:
			if !open || s.Phase == runstate.Gone {
				return none, neverReady(ctx, l, id)
			}
			watch.See(s)
			offers.See(ctx, s)
			if s.Phase == runstate.Ready {
				a.UI.Clear()
				return s, nil
			}
		case action := <-actions:
			if action == launcher.Detach {
				a.UI.Note("cluster %s is still starting", id)
				return none, app.Exit(runstate.CodeInterrupted)
			}
			go func() {
				ending <- l.Terminate(ctx, id, launcher.End{Cause: runstate.CauseInterrupted, Message: "up was interrupted", Now: action == launcher.StopNow})
			}()
		case err := <-ending:
			if err != nil {
				return none, err
			}
		}
	}
}

// neverReady returns why the cluster ended before it was ready.
func neverReady(ctx context.Context, l launcher.Launcher, id launcher.ID) error {
	r, err := l.Result(ctx, id)
	if err != nil {
		return err
	}
	if r.Exit == nil {
		return launcher.Fail(runstate.CodeStartFailed, nil, fmt.Sprintf("`rayctl status %s` shows why", id), "cluster %s ended before it was ready", id)
	}
	return endedEarly(id, *r.Exit)
}

func endedEarly(id launcher.ID, e runstate.Exit) error {
	code := e.Code
	if code == 0 {
		code = runstate.CodeStartFailed
	}
	reason := e.Message
	if reason == "" {
		reason = e.Cause
	}
	return launcher.Fail(code, nil, "`rayctl status "+string(id)+"` shows what happened", "cluster %s ended before it was ready: %s", id, reason)
}

// answerUp prints the new cluster.
func answerUp(a *app.App, o *upOptions, file string, s launcher.Status) error {
	id := s.Name
	if done, err := o.output.Structured(a.Out, s); done || err != nil {
		return err
	}
	if o.output.Format == app.FormatName || a.Quiet { // as `docker run -d` prints what it made
		_, err := io.WriteString(a.Out, terminal.OneLine(s.Name)+"\n")
		return err
	}
	ready, wanted := countNodes(s)
	if s.Created.Before(o.begun.Add(-clockSkew)) {
		a.UI.Note("cluster %s exists since %s and is used again: a name stands for one cluster, in every directory. Use --name for another cluster", s.Name, terminal.Stamp(a.Err, s.Created))
	}
	a.UI.Note("cluster %s is %s: %d of %d nodes, Ray %s%s", s.Name, s.Phase.Word(), ready, wanted, terminal.OrDash(s.Head.RayVersion), deadlineText(a.Err, s))
	first := fmt.Sprintf("`rayctl submit %s -- python a.py`", id)
	if config := app.ServeConfig(file); config != "" {
		first = fmt.Sprintf("`rayctl serve apply -f %s %s`", shellescape.Quote(config), id)
	}
	a.Next(first, fmt.Sprintf("`eval \"$(rayctl env %s)\"` in a shell, `rayctl env --python %s` for a notebook", id, id), fmt.Sprintf("`rayctl dashboard %s`", id), fmt.Sprintf("`rayctl down %s`", id))
	return nil
}

// clockSkew is what clocks of different machines may differ.
const clockSkew = 10 * time.Second

// countNodes sums up the groups. Their last count stays in the record of an ended cluster, which has no nodes.
func countNodes(s launcher.Status) (ready, wanted int) {
	for _, g := range s.Groups {
		if !s.Phase.Ended() {
			ready += g.Ready
		}
		wanted += g.Wanted
	}
	return ready, wanted
}

// deadlineText describes when the cluster ends by itself.
func deadlineText(w io.Writer, s launcher.Status) string {
	var texts []string
	for _, l := range reachable(s.Deadlines) {
		text := "at " + terminal.Stamp(w, *l.at)
		switch l.name {
		case "idle":
			text += " if nothing runs on it until then"
		case "idleGpu":
			text += " if its GPUs do nothing until then"
		}
		texts = append(texts, text)
	}
	if len(texts) == 0 {
		return ""
	}
	return ", ends " + strings.Join(texts, " or ")
}
