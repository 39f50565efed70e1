package kuberay

import (
	"context"
	"slices"

	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/kuberay/result"
	"github.com/rayctl/rayctl/launcher"
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
