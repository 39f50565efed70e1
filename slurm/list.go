package slurm

import (
	"context"
	"fmt"
	"slices"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/site"
)

// List reads the runs' directories, with one question to the controller for all, and changes nothing.
func (l *Launcher) List(ctx context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	names, err := l.site.Runs.Names(ctx)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		if _, err := l.site.Version(ctx); err != nil && site.NotInstalled(err) {
			return nil, l.site.NoSlurm(err)
		}
	}
	var out []launcher.Status
	known := map[string]bool{} // nonces of ours
	for _, name := range names {
		if len(sel.Names) > 0 && !slices.Contains(sel.Names, name) {
			continue
		}
		s, nonce, ok, err := l.listed(ctx, name)
		if err != nil {
			return nil, err
		}
		known[nonce] = true
		if ok && sel.Matches(s) {
			out = append(out, s)
		}
	}
	if sel.Others {
		others, err := l.others(ctx, sel, known)
		if err != nil {
			return nil, err
		}
		out = append(out, others...)
	}
	slices.SortStableFunc(out, func(a, b launcher.Status) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// others are clusters that rayctl runs for other users, or from another slurm.dir: Slurm shows their jobs' comments. What Ray does in them only their
// owners see.
func (l *Launcher) others(ctx context.Context, sel launcher.Selector, known map[string]bool) (out []launcher.Status, err error) {
	jobs, err := l.site.Everybodys(ctx)
	if err != nil {
		return nil, l.site.Unreachable(err)
	}
	for _, j := range jobs {
		name, nonce := script.Commented(j.Comment, "name"), script.NonceOf(j.Comment)
		if name == "" || known[nonce] || j.Ended() || j.HetOffset > 0 || len(sel.Names) > 0 && !slices.Contains(sel.Names, name) {
			continue
		}
		s := launcher.Status{Name: name, Launcher: l.Name(), Owner: j.User, SpecHash: script.Commented(j.Comment, "spec"), Where: fmt.Sprintf("job %d", j.ID),
			Phase: runstate.Queued, Reason: controller.Explain(j), Created: j.Submit, Since: j.Submit, Attempt: 1}
		if j.State != controller.StatePending {
			s.Phase, s.Since = runstate.Provisioning, j.Start
			s.Reason = runstate.Reason{Code: "NotOurs", Message: "its job runs; only its owner can see the state of Ray in it"}
		}
		if sel.Matches(s) {
			out = append(out, s)
		}
	}
	return out, nil
}

// listed is the status of one cluster, and its nonce; ok is false for what is none.
func (l *Launcher) listed(ctx context.Context, name string) (s launcher.Status, nonce string, ok bool, err error) {
	c, err := l.cluster(ctx, name)
	if err != nil {
		return s, "", false, nil // not ours
	}
	if err := c.run.Read(ctx); err != nil || c.run.Record == nil {
		return s, "", false, err
	}
	if nonce = c.run.Record.Nonce; !c.run.Committed { // also where its client has died: its job may wait in the queue
		return c.waiting(controller.Job{}, fateUnknown), nonce, true, nil
	}
	s, ok = c.listed(ctx)
	return s, nonce, ok, nil
}

// listed: a cluster whose keeper is dead is shown as it will be concluded. ok is false for a record whose time is over.
func (c *cluster) listed(ctx context.Context) (s launcher.Status, ok bool) {
	f, j, err := c.askController(ctx, listAge)
	switch {
	case err != nil:
		s = c.known(ctx)
		s.Unreachable = c.l.site.Unreachable(err).Error()
		return s, !s.Phase.Ended() || !c.run.Expired()
	case f == fateAlive && j.State == controller.StatePending:
		s = c.waiting(j, f)
		if v, err := c.verdictOnWaiting(ctx, j); v != nil {
			s.Due = dueOf(*v)
		} else if err != nil {
			c.l.log.Debug("it is not known whether the job waits in vain", "cluster", c.run.Name, "error", err)
		}
	case c.run.Result != nil && f == fateAlive:
		s = c.releasing(c.run.Result, j)
	case c.run.Result != nil && c.run.Expired():
		return s, false
	case c.run.Result != nil:
		s = c.status(c.run.Result, j)
	case f == fateGone:
		v := c.verdict(ctx, f, j)
		s = c.status(c.concluded(&v), j)
		s.Due = &launcher.End{Cause: s.Exit.Cause, Message: s.Exit.Message}
	case c.run.State != nil:
		s = c.living(j)
	default:
		s = c.waiting(j, f)
	}
	return s, true
}

// listAge lets one answer serve a whole list.
const listAge = controller.WaitingAge / 5
