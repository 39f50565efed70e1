package keeper_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestChange: a changed file is applied to a running cluster as a whole or not at all, and the previous file again. Values set by commands stay if the file is the same.
func TestChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, "", func(o *keeper.Orders) {
		elastic(1, 4)(o)
		o.Lifetime.Max, o.Lifetime.Idle = 7200, 3600
	}).start(nil)
	r.commit(keeper.Commit{})
	ready := r.state("ready", func(s *runstate.State) bool { return s.Phase == runstate.Ready })
	launched := keeper.Change{
		SpecHash: "hash", Lifetime: keeper.ChangedLifetime{Max: 7200, Idle: 3600}, Scaling: &keeper.Scaling{Idle: 600, UpscalingSpeed: 1},
		Groups: map[string][3]int{"head": {1, 1, 0}, "w": {1, 4, 0}, "none": {0, 0, 0}},
	}
	changed := launched
	changed.SpecHash = "changed"
	for words, shape := range map[string]func(*keeper.Change){
		"group w can have 1 to 4 nodes, and not 5":              func(c *keeper.Change) { c.Groups = map[string][3]int{"w": {5, 5, 0}} },
		"the maximum of group w can be 1 to 4 nodes, and not 6": func(c *keeper.Change) { c.Groups = map[string][3]int{"w": {1, 6, 0}} },
		"group head is not elastic":                             func(c *keeper.Change) { c.Groups = map[string][3]int{"head": {2, 2, 0}} },
		"group none has no nodes in the cluster":                func(c *keeper.Change) { c.Groups = map[string][3]int{"none": {0, 3, 0}} },
		"lifetime.max of 1s has passed already":                 func(c *keeper.Change) { c.Lifetime.Max = 1 },
	} {
		refused := changed
		refused.Lifetime.Idle = 60
		shape(&refused)
		if _, err := r.client().Change(t.Context(), refused); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("want %q: %v", words, err)
		}
	}
	checked := changed
	checked.Check, checked.Lifetime.Max = true, 3600
	s, err := r.client().Change(t.Context(), checked)
	r.must(err)
	if s.SpecHash != "hash" || s.Changes != 0 || !s.Deadlines.Max.Equal(*ready.Deadlines.Max) || !s.Deadlines.Idle.After(ready.Deadlines.Idle.Add(-1)) {
		t.Errorf("what was refused, or only checked, has changed the cluster: %s, %+v", s.SpecHash, s.Deadlines)
	}

	changed.Lifetime = keeper.ChangedLifetime{Max: 3600}
	changed.Groups = map[string][3]int{"head": {1, 1, 0}, "w": {2, 3, 3}}
	changed.Scaling = &keeper.Scaling{Idle: 3, UpscalingSpeed: 1}
	s, err = r.client().Change(t.Context(), changed)
	r.must(err)
	if by := ready.Deadlines.Max.Sub(*s.Deadlines.Max).Seconds(); s.SpecHash != "changed" || s.Changes != 1 || by < 3599 || by > 3601 || s.Deadlines.Idle != nil {
		t.Errorf("%s, %d changes, ends %.1f s earlier, idle %v", s.SpecHash, s.Changes, by, s.Deadlines.Idle)
	}
	if g := s.Groups[1]; g.Min != 2 || g.Max != 3 {
		t.Errorf("%+v", g)
	}
	// Ray counts a node's idle time from its raylet's start: on a busy machine the third node may be given up before the keeper has seen it alive.
	r.state("of three nodes, which nothing uses, Ray has given up one", func(s *runstate.State) bool {
		return slices.ContainsFunc(s.Allocations, func(a runstate.Allocation) bool { return a.Message == "nothing needed it any more" })
	})

	_, err = r.client().Scale(t.Context(), keeper.Scale{Group: "w", Min: 1})
	r.must(err)
	kept := changed
	kept.SpecHash, kept.Lifetime.Max = "third", 1800
	s, err = r.client().Change(t.Context(), kept)
	r.must(err)
	if g := s.Groups[1]; g.Min != 1 || s.Changes != 2 {
		t.Errorf("the size that was set by hand, %d changes: %+v", s.Changes, g)
	}
	s, err = r.client().Change(t.Context(), launched)
	r.must(err)
	if g := s.Groups[1]; g.Min != 1 || g.Max != 4 || s.SpecHash != "hash" || s.Deadlines.Max.Sub(*ready.Deadlines.Max).Abs().Seconds() > 1 {
		t.Errorf("the file of the launch again: %+v, %+v", g, s.Deadlines)
	}
	orders, err := r.dir.Orders()
	r.must(err)
	if orders.Lifetime.Max != 7200 || orders.SpecHash != "hash" {
		t.Errorf("for a keeper that follows: %+v", orders.Lifetime)
	}
	_, err = r.client().End(t.Context(), keeper.End{Cause: "down"})
	r.must(err)
	r.result()
}
