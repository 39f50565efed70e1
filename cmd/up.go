package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

type upOptions struct {
	config     configOptions
	disconnect disconnectFlag
	detach     bool
	recreate   bool
	output     output
}

func newUp(a *App) *cobra.Command {
	o := &upOptions{}
	c := &cobra.Command{
		Use:   "up [NAME] [-f FILE] [flags]",
		Short: "Make a cluster that stays, and wait until it is ready",
		Long: "up makes the cluster of the cluster file, without its job, and returns once every node is there. The same command again finds the same\n" +
			"cluster; another spec under the same name is an error that lists the difference, unless --recreate.\n" +
			"A cluster that is forgotten ends itself: after 1 h without work and after 12 h, unless lifetime.idle and lifetime.max say otherwise.",
		Example: "  rayctl up\n  rayctl up dev --workers 2 --cpus-per-worker 4\n  rayctl up --set lifetime.idle=4h",
		Args:    noDash(1, "one name"),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 1 {
				if err := o.config.flags.Set("name", args[0]); err != nil {
					return err
				}
			}
			return runUp(c.Context(), a, o)
		},
	}
	o.config.addSpec(c)
	o.disconnect.add(c, "never")
	c.Flags().BoolVarP(&o.detach, "detach", "d", false, "return once the launch is committed")
	c.Flags().BoolVar(&o.recreate, "recreate", false, "replace a cluster of that name")
	o.output.add(c, formatJSON, formatYAML, formatName)
	return c
}

// runUp makes a cluster and waits until it is ready; an interrupt before that ends it.
func runUp(ctx context.Context, a *App, o *upOptions) error {
	if err := o.output.validate(); err != nil {
		return err
	}
	c, l, err := a.loadUp(o)
	if err != nil {
		return err
	}
	payload, err := a.payload(c.Spec, "rayctl up")
	if err != nil {
		return err
	}
	if payload.EndOnDisconnect, err = o.disconnect.value(a, false); err != nil {
		return err
	}
	id := launcher.ID(c.Spec.Name)
	a.ui.note("%s: cluster %s", c.Reason, a.ui.paint(bold, c.Spec.Name))
	a.notePackages(c.Spec)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if o.recreate {
		if err := a.replace(ctx, l, c.Spec, &payload); err != nil {
			return err
		}
	}
	actions := a.watchInterrupts(ctx, onInterruptStop)
	opts := launcher.RunOptions{Actions: actions, OnRefused: a.refused(c.Spec), Detach: true, Logger: a.logger()}
	outcome, err := launcher.Run(ctx, l, c.Spec, payload, opts)
	if errors.Is(err, launcher.ErrEnded) && worthless(ctx, l, id) {
		if err := a.forget(ctx, l, id); err != nil {
			return err
		}
		outcome, err = launcher.Run(ctx, l, c.Spec, payload, opts)
	}
	switch {
	case err != nil:
		return err
	case !outcome.Detached:
		return a.endedEarly(id, outcome.Receipt.Exit)
	case o.detach:
		s, err := (&cluster{l: l, id: id}).status(ctx)
		if err != nil {
			return err
		}
		return a.answerUp(o, s)
	}
	ready, err := a.untilReady(ctx, l, id, actions)
	if err != nil {
		return err
	}
	return a.answerUp(o, ready)
}

// worthless reports whether the record of an ended cluster may be removed without asking: it has neither output nor outcome of a job.
func worthless(ctx context.Context, l launcher.Launcher, id launcher.ID) bool {
	r, err := l.Result(ctx, id)
	return errors.Is(err, launcher.ErrNotFound) || err == nil && r.Job == nil
}

// loadUp reads the configuration for a cluster without a job.
func (a *App) loadUp(o *upOptions) (*config.Loaded, launcher.Launcher, error) {
	c, err := a.load(&o.config, config.Options{Up: true})
	if err != nil {
		return nil, nil, err
	}
	c.Spec.Job = jobOfUp(c.Spec)
	l, err := a.launcher(c)
	return c, l, err
}

// jobOfUp keeps only the grace of the job, which applies to the cluster.
func jobOfUp(s *spec.ClusterSpec) spec.Job { return spec.Job{Grace: s.Job.Grace} }

// untilReady watches until every node is there. A request to stop ends the cluster; a request to detach leaves it running.
func (a *App) untilReady(ctx context.Context, l launcher.Launcher, id launcher.ID, actions <-chan launcher.Action) (launcher.Status, error) {
	var none launcher.Status
	statuses, err := l.Watch(ctx, id)
	if err != nil {
		return none, err
	}
	watch := a.newWatcher()
	ending := make(chan error, 2)
	tending := false
	for {
		select {
		case s, open := <-statuses:
			if !open || s.Phase == runstate.Gone {
				if s.Due != nil {
					launcher.Tend(ctx, l, id, *s.Due, a.logger())
				}
				return none, a.neverReady(ctx, l, id)
			}
			if s.Due != nil && !tending {
				tending = true
				go launcher.Tend(ctx, l, id, *s.Due, a.logger())
			}
			watch.see(s)
			if s.Phase == runstate.Ready {
				a.ui.clear()
				return s, nil
			}
		case action := <-actions:
			if action == launcher.Detach {
				a.ui.note("cluster %s goes on starting", id)
				return none, exitCode(runstate.CodeInterrupted)
			}
			go func() {
				ending <- l.Terminate(ctx, id, launcher.End{Cause: "interrupted", Message: "up was interrupted", Now: action == launcher.StopNow})
			}()
		case err := <-ending:
			if err != nil {
				return none, err
			}
		}
	}
}

// neverReady returns why the cluster ended before it was ready.
func (a *App) neverReady(ctx context.Context, l launcher.Launcher, id launcher.ID) error {
	r, err := l.Result(ctx, id)
	if err != nil {
		return err
	}
	if r.Exit == nil {
		return launcher.Fail(runstate.CodeStartFailed, nil, "", "cluster %s ended before it was ready", id)
	}
	return a.endedEarly(id, *r.Exit)
}

func (a *App) endedEarly(id launcher.ID, e runstate.Exit) error {
	code := e.Code
	if code == 0 {
		code = runstate.CodeStartFailed
	}
	reason := e.Message
	if reason == "" {
		reason = e.Cause
	}
	return launcher.Fail(code, nil, "", "cluster %s ended before it was ready: %s", id, reason)
}

// answerUp prints the new cluster.
func (a *App) answerUp(o *upOptions, s launcher.Status) error {
	id := s.Name
	if done, err := o.output.structured(a.Out, s); done || err != nil {
		return err
	}
	if o.output.format == formatName {
		_, err := io.WriteString(a.Out, s.Name+"\n")
		return err
	}
	ready, wanted := countNodes(s)
	a.ui.note("cluster %s is %s: %d of %d nodes, Ray %s%s", s.Name, s.Phase, ready, wanted, orDash(s.Head.RayVersion), a.deadlineText(s))
	a.next(fmt.Sprintf("`rayctl submit %s -- python a.py`", id), fmt.Sprintf("`eval \"$(rayctl env %s)\"`", id), fmt.Sprintf("`rayctl dashboard %s`", id), fmt.Sprintf("`rayctl down %s`", id))
	return nil
}

// countNodes sums up the groups.
func countNodes(s launcher.Status) (ready, wanted int) {
	for _, g := range s.Groups {
		ready += g.Ready
		wanted += g.Wanted
	}
	return ready, wanted
}

// deadlineText describes when the cluster ends by itself.
func (a *App) deadlineText(s launcher.Status) string {
	text := ""
	if d := s.Deadlines.Max; d != nil {
		text += ", ends at " + stamp(*d)
	}
	return text
}
