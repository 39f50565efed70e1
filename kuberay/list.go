package kuberay

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// List reads the Jobs, RayClusters and pods of the namespace: three requests for any number of clusters. With sel.Whole it also reads the gangs and the events,
// and asks the keepers.
func (l *Launcher) List(ctx context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	all, whole, err := observe.All(ctx, c, sel)
	if err != nil {
		return nil, err
	}
	if len(sel.Names) > 0 {
		maps.DeleteFunc(all, func(name string, _ *observe.Snapshot) bool { return !slices.Contains(sel.Names, name) })
	}
	var states map[string]*runstate.State
	if sel.Whole {
		states = l.keepersOf(ctx, all)
	}
	var out []launcher.Status
	for name, o := range all {
		var s launcher.Status
		switch id := launcher.ID(name); {
		case o.Gone():
			s = observe.FinalStatus(id, c.Namespace, o, result.Of(o))
		case sel.Whole:
			s = l.living(&dueJudge{Namespace: c.Namespace, ID: id}, o, states[name], "")
		default:
			s = observe.LivingStatus(id, c.Namespace, o, nil, "")
			s.Unreachable = "" // the keeper was not asked
		}
		if early := []runstate.Phase{runstate.Queued, runstate.Provisioning, runstate.Starting}; !whole && slices.Contains(early, s.Phase) {
			s.Reason, s.Due = runstate.Reason{}, nil // they may be others with what was not read
		}
		s.Theirs = s.Ours && !observe.SameOwner(s.Owner, l.owner)
		if matches(s, sel) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b launcher.Status) int { return a.Created.Compare(b.Created) })
	return out, nil
}

// Searches reports whether a cluster with this Status.Where is in the namespace that List reads.
func (l *Launcher) Searches(ctx context.Context, where string) bool {
	c, err := l.kube(ctx)
	namespace, _, _ := strings.Cut(where, "/")
	return err == nil && namespace == c.Namespace
}

// keepersOf asks the keepers that run for their states, as Watch does. One that does not answer is left out.
func (l *Launcher) keepersOf(ctx context.Context, all map[string]*observe.Snapshot) map[string]*runstate.State {
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	var mu sync.Mutex
	var asking errgroup.Group
	asking.SetLimit(askedAtOnce)
	states := map[string]*runstate.State{}
	for name, o := range all {
		if !observe.KeeperRuns(o) && l.resident(launcher.ID(name)) == nil {
			continue
		}
		asking.Go(func() error {
			st, err := l.stateOf(ctx, launcher.ID(name))
			if err != nil {
				l.log.Debug("the keeper does not answer", "cluster", name, "error", err)
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			states[name] = st
			return nil
		})
	}
	_ = asking.Wait() // no function of it fails
	return states
}

// askedAtOnce bounds the connections through the API server that List has at one moment.
const askedAtOnce = 16

func matches(s launcher.Status, sel launcher.Selector) bool {
	abandoned := s.Phase.Ended() && s.Exit != nil && s.Exit.Cause == runstate.CauseAbandoned // as if it had never been
	return (s.Ours || sel.Others) && !abandoned && sel.Matches(s)
}

// Reconcile does what nobody is left to do for this user's clusters, see repairFinder. A launch does nothing of it: it would list the pods of the namespace.
func (l *Launcher) Reconcile(ctx context.Context, s launcher.Scope) ([]launcher.Collected, error) {
	if s.Beside != "" {
		return nil, nil
	}
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	finder := repairFinder{Client: c, Owner: l.owner, Log: l.log, State: l.stateOf, Terminate: l.Terminate, Now: l.config.Now}
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
