package keeper_test

import (
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestScale: a user sets how many nodes there are at least and at most, within what the cluster was launched with; none goes while it is used.
func TestScale(t *testing.T) {
	t.Parallel()
	r := newRig(t, holdTwo, func(o *keeper.Orders) {
		elastic(1, 4)(o)
		o.Scaling.Idle = 3
	}).start(nil)
	r.commit(keeper.Commit{})
	r.state("the driver runs", running)
	held := r.alive("w-1", 0) // with w-0
	groups := func() []runstate.Group {
		return r.state("its groups", func(*runstate.State) bool { return true }).Groups
	}
	for wish, words := range map[keeper.Scale]string{
		{Group: "x", Min: 1}: "there is no group x; there is head, w", {Group: "head", Min: 1}: "group head is not elastic",
		{Group: "w", Min: 0}: "group w can have 1 to 4 nodes, and not 0", {Group: "w", Min: 5}: "group w can have 1 to 4 nodes, and not 5",
		{Group: "w", Min: 1, Max: ptr(9)}: "the maximum of group w can be 1 to 4 nodes, and not 9",
	} {
		if _, err := r.client().Scale(t.Context(), wish); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v: %v", wish, err)
		}
	}
	if _, err := r.client().Scale(t.Context(), keeper.Scale{Group: "w", Min: 4}, keeper.Scale{Group: "x", Min: 1}); err == nil || groups()[1].Min != 1 {
		t.Errorf("one of two sizes that cannot both be had: %v, %+v", err, groups())
	}
	if offer, over, err := r.client().TakeOffer(t.Context(), keeper.OfferReport{}); offer != nil || over || err != nil { // these nodes need no jobs
		t.Errorf("an offer: %+v, %t, %v", offer, over, err)
	}
	_, err := r.client().Scale(t.Context(), keeper.Scale{Group: "w", Min: 3})
	r.must(err)
	third := r.alive("w-2", 0)
	s, err := r.client().Scale(t.Context(), keeper.Scale{Group: "w", Min: 1, Max: ptr(1)})
	r.must(err)
	if g := s.Groups[1]; g.Min != 1 || g.Max != 1 {
		t.Errorf("%+v", g)
	}
	s = r.state("the third node is given up", func(s *runstate.State) bool { return more(s)[len(more(s))-1].Released != nil })
	if a := more(s)[len(more(s))-1]; !strings.HasPrefix(a.ID, third.Name) || a.Message != "nothing needed it any more" {
		t.Errorf("%+v", a)
	}
	if now := r.alive("w-1", 0); now.PID != held.PID || running(s) == false {
		t.Errorf("the node that the driver uses: %+v, before: %+v", now, held)
	}
}

// holdTwo is a driver that holds two nodes of one CPU as long as it runs. Its actors ask for memory, too, which the group leaves to Ray.
var holdTwo = hold(2)
