package clusters

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// change is a changed cluster file for a living cluster.
type change struct {
	a           *app.App
	l           launcher.Launcher
	id          launcher.ID
	was, s      *spec.ClusterSpec
	differences []spec.Difference
	unrecorded  bool // differences is empty, but the keeper has applied another file than s, which its client did not record
}

// newChange compares s with the cluster file that the launcher has recorded for the cluster. The error is ErrConflict if a key differs that may not change while
// the cluster lives.
func newChange(ctx context.Context, a *app.App, l launcher.Launcher, s *spec.ClusterSpec) (*change, error) {
	c := &change{a: a, l: l, id: launcher.ID(s.Name), s: spec.For(s, l.Name())}
	was, err := l.Accepted(ctx, c.id)
	if err != nil {
		return nil, err
	}
	c.was, c.differences = was, spec.Differences(was, c.s)
	if len(c.differences) == 0 {
		c.compareWithKeeper(ctx)
	}
	return c, c.refuse()
}

// compareWithKeeper sets unrecorded, if the keeper answers: the record may have this file, and the keeper another one.
func (c *change) compareWithKeeper(ctx context.Context) {
	_ = c.a.AskKeeper(ctx, &app.Cluster{Launcher: c.l, ID: c.id}, func(k *keeper.Client) error {
		st, err := k.State(ctx)
		c.unrecorded = launcher.TookAnother(st, c.s)
		return err
	})
}

// refuse returns ErrConflict with the keys that differ and may not change while the cluster lives; nil if there are none.
func (c *change) refuse() error {
	var fixed []string
	for _, d := range c.differences {
		if !d.Changeable() {
			fixed = append(fixed, d.String())
		}
	}
	if len(fixed) == 0 {
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "choose another name, or replace it with --recreate",
		"a cluster named %s exists with another spec, and while it runs only %s may change, but other keys differ (%s)", c.id, strings.Join(spec.ChangeableKeys(), ", "), spec.OwnAndYours(fixed))
}

// apply sends the changed file to the keeper, which applies all of it or nothing, and then records it. With check the keeper only reports whether it
// could apply it.
func (c *change) apply(ctx context.Context, check bool) error {
	resizer, able := launcher.As[launcher.Resizer](c.l)
	if able && (c.unrecorded || c.resized()) { // the keeper cannot change the RayCluster: it checks the file first, then the sizes are changed
		if _, err := c.sendToKeeper(ctx, true); err != nil {
			return err
		}
		was := c.was
		if c.unrecorded {
			was = nil
		}
		if err := resizer.Resize(ctx, c.id, was, c.s, check); err != nil || check {
			return err
		}
	}
	state, err := c.sendToKeeper(ctx, check)
	if err != nil || check {
		return err
	}
	if err := c.l.Accept(ctx, c.id, c.s); err != nil {
		return err
	}
	if c.changes("lifetime.max") {
		return c.l.Extended(ctx, c.id, state.Deadlines)
	}
	return nil
}

// sendToKeeper has the keeper apply the file, or with check only report whether it could. It returns the keeper's state.
func (c *change) sendToKeeper(ctx context.Context, check bool) (state *runstate.State, err error) {
	order := orders.Change(c.s)
	order.Check = check
	err = c.a.AskKeeper(ctx, &app.Cluster{Launcher: c.l, ID: c.id}, func(k *keeper.Client) error {
		var err error
		state, err = k.Change(ctx, order)
		return err
	})
	switch why, refused := keeper.Refusal(err); {
	case refused:
		return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "replace it with --recreate", "the changed file cannot be applied to %s: %s", c.id, why)
	case errors.Is(err, keeper.ErrNotFound):
		return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "replace it with --recreate, or use `rayctl extend` and `rayctl scale`", "%s was launched by an older rayctl, whose keeper cannot apply a changed cluster file", c.id)
	}
	return state, err
}

// resized reports whether sizes of groups differ, or how they scale.
func (c *change) resized() bool {
	return slices.ContainsFunc(c.differences, func(d spec.Difference) bool {
		return strings.HasPrefix(d.Path, "workers.") || strings.HasPrefix(d.Path, "scaling.")
	})
}

func (c *change) changes(path string) bool {
	return slices.ContainsFunc(c.differences, func(d spec.Difference) bool { return d.Path == path })
}

// upChanged is `up` of a living cluster which Launch has refused with ErrConflict, because the file differs from the cluster's. It applies the file if only keys
// differ that may change.
func upChanged(ctx context.Context, a *app.App, l launcher.Launcher, loaded *config.Loaded) error {
	if onlyNamed(loaded) {
		a.UI.Note("%s is there, with settings that are not the defaults: it stays as it is (`rayctl status -v %s` shows it)", loaded.Spec.Name, loaded.Spec.Name)
		return nil
	}
	c, err := newChange(ctx, a, l, loaded.Spec)
	if err != nil {
		return err
	}
	if err := c.apply(ctx, false); err != nil {
		return err
	}
	for _, d := range c.differences {
		a.UI.Note("%s: changed %s", c.id, d)
	}
	if c.unrecorded {
		a.UI.Note("%s: changed %s", c.id, takenAgain)
	}
	return nil
}

// onlyNamed reports whether `up NAME` asks for no settings at all: nobody wants the defaults for a cluster that has other ones.
func onlyNamed(c *config.Loaded) bool {
	for key, origin := range c.Origins {
		if key != "name" && key != "launcher" && origin != (spec.Origin{}) {
			return false
		}
	}
	return len(c.Files) == 0
}

// takenAgain follows "changed" in messages where the record shows no difference (change.unrecorded).
const takenAgain = "back to this file: another one had been applied to it, but was not recorded"

// upPlan is the answer of `up --dry-run`.
type upPlan struct {
	Name    string            `json:"name"`
	Action  string            `json:"action"` // launch, change or none
	Changes []spec.Difference `json:"changes,omitempty"`
}

// dryUp prints what up would do.
func dryUp(ctx context.Context, a *app.App, o *upOptions, l launcher.Launcher, loaded *config.Loaded, p launcher.Payload) error {
	s := loaded.Spec
	plan := upPlan{Name: s.Name, Action: "none"}
	c, err := newChange(ctx, a, l, s)
	switch {
	case onlyNamed(loaded) && (err == nil || errors.Is(err, launcher.ErrConflict)):
	case errors.Is(err, launcher.ErrEnded) && worthless(ctx, l, launcher.ID(s.Name)), errors.Is(err, launcher.ErrNotFound):
		if err := l.Validate(ctx, s, p); err != nil {
			return err
		}
		plan.Action = "launch"
	case err != nil:
		return err
	case len(c.differences) > 0 || c.unrecorded:
		plan.Action, plan.Changes = "change", c.differences
		if err := c.apply(ctx, true); err != nil {
			return err
		}
	}
	a.UI.Clear()
	if done, err := o.output.Structured(a.Out, plan); done || err != nil {
		return err
	}
	return plan.print(a, l)
}

func (p upPlan) print(a *app.App, l launcher.Launcher) error {
	switch p.Action {
	case "launch":
		_, err := fmt.Fprintf(a.Out, "%s does not exist: up would launch it (%s)\n", p.Name, l.Name())
		return err
	case "none":
		_, err := fmt.Fprintf(a.Out, "%s exists: up would change nothing\n", p.Name)
		return err
	}
	if len(p.Changes) == 0 {
		_, err := fmt.Fprintf(a.Out, "%s: up would change it %s\n", p.Name, takenAgain)
		return err
	}
	for _, d := range p.Changes {
		if _, err := fmt.Fprintf(a.Out, "%s: up would change %s\n", p.Name, terminal.OneLine(fmt.Sprint(d))); err != nil {
			return err
		}
	}
	return nil
}

// runPlan is the answer of `run --dry-run`.
type runPlan struct {
	Name    string `json:"name"`
	Action  string `json:"action"` // launch; attach, where the run lives; show, where its record is
	Command string `json:"command"`
	// Sends is what the launch would pack of the job's directories and modules.
	Sends *app.Sent `json:"sends,omitempty"`
}

// dryRun prints what run would do.
func dryRun(ctx context.Context, a *app.App, o *runOptions, l launcher.Launcher, c *config.Loaded, p launcher.Payload) error {
	plan := runPlan{Name: c.Spec.Name, Action: "launch", Command: driverio.UserCommand(c.Spec.Job.Entrypoint)}
	a.NoteUnused(c.Spec, l)
	if o.config.ExactName() != "" {
		s, err := (&app.Cluster{Launcher: l, ID: launcher.ID(plan.Name)}).Status(ctx)
		switch {
		case errors.Is(err, launcher.ErrNotFound):
		case err != nil:
			return err
		case s.SpecHash != spec.Hash(c.Spec):
			return launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "choose another --name, or replace it with --recreate", "%s is another run, and run would refuse the name", plan.Name)
		case s.Phase.Ended():
			plan.Action = "show"
		default:
			plan.Action = "attach"
		}
	}
	if plan.Action == "launch" {
		if err := l.Validate(ctx, c.Spec, p); err != nil {
			if code := launcher.ExitCode(err); c.Spec.Launcher != spec.Fallback() && (code == runstate.CodeConfig || code == runstate.CodeUnreachable) {
				a.UI.Note("`rayctl render` shows what a launch would create, and needs neither Slurm nor Kubernetes for that")
			}
			return err
		}
		var err error
		if plan.Sends, err = a.WouldSend(ctx, &c.Spec.Job); err != nil { // also refused: what cannot be packed, or is too large for Ray
			return err
		}
	}
	a.UI.Clear()
	if done, err := o.output.Structured(a.Out, plan); done || err != nil {
		return err
	}
	text := fmt.Sprintf("would start %s (%s): %s", c.On(), c.Reason, plan.Command)
	switch plan.Action {
	case "show":
		text = "has ended: run would show its record"
	case "attach":
		text = "lives: run would attach to it"
	}
	_, err := fmt.Fprintf(a.Out, "%s %s\n", terminal.Clean(plan.Name), terminal.Clean(text))
	return err
}
