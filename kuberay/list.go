package kuberay

import (
	"context"
	"errors"
	"slices"

	"github.com/rayctl/rayctl/kuberay/collect"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// List reads the Jobs, RayClusters and pods of the namespace: three requests for any number of clusters. The result lacks what only keepers
// have, such as the job's state.
func (l *Launcher) List(ctx context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	all, err := observe.All(ctx, c, sel)
	if err != nil {
		return nil, err
	}
	var out []launcher.Status
	for name, o := range all {
		if len(sel.Names) > 0 && !slices.Contains(sel.Names, name) {
			continue
		}
		var s launcher.Status
		if o.Gone() {
			s = observe.FinalStatus(launcher.ID(name), c.Namespace, o, result.Of(o))
		} else {
			s = observe.LivingStatus(launcher.ID(name), c.Namespace, o, nil, "")
		}
		s.Theirs = s.Ours && !observe.SameOwner(s.Owner, l.owner)
		if matches(s, sel) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b launcher.Status) int { return a.Created.Compare(b.Created) })
	return out, nil
}

func matches(s launcher.Status, sel launcher.Selector) bool {
	abandoned := s.Phase.Ended() && s.Exit != nil && s.Exit.Cause == runstate.CauseAbandoned // as if it had never been
	return (s.Ours || sel.Others) && !abandoned && sel.Matches(s)
}

// Reconcile does what nobody is left to do for this user's clusters, see collect.Finder. A launch does nothing of it: it would list the pods of the namespace.
func (l *Launcher) Reconcile(ctx context.Context, s launcher.Scope) ([]launcher.Collected, error) {
	if s.Beside != "" {
		return nil, nil
	}
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	finder := collect.Finder{Client: c, Owner: l.owner, Log: l.log, State: l.stateOf, Terminate: l.Terminate, Now: l.config.Now}
	repairs, err := finder.Find(ctx)
	failures := []error{err}
	var out []launcher.Collected
	for _, r := range repairs {
		out = append(out, r.Collected)
		if !s.DryRun {
			failures = append(failures, r.Do(ctx))
		}
	}
	return out, errors.Join(failures...)
}

// stateOf asks a cluster's keeper.
func (l *Launcher) stateOf(ctx context.Context, id launcher.ID) (st *runstate.State, err error) {
	err = launcher.AskKeeper(ctx, l, id, func(k *keeper.Client) error {
		st, err = k.State(ctx)
		return err
	})
	return st, err
}
