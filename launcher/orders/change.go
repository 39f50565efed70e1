package orders

import (
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Change converts what a living cluster takes of a changed cluster file.
func Change(s *spec.ClusterSpec) keeper.Change {
	c := keeper.Change{
		SpecHash: spec.Hash(s), Lifetime: keeper.ChangedLifetime{Max: Seconds(s.Lifetime.Max), Idle: Seconds(s.Lifetime.Idle), IdleGPU: Seconds(s.Lifetime.IdleGPU)},
		Groups: map[string][3]int{}, Scaling: Scaling(s),
	}
	for _, g := range s.NodeGroups() {
		group := Group(g)
		c.Groups[g.Name] = [3]int{group.Count, max(group.Count, group.Max), group.Initial}
	}
	return c
}
