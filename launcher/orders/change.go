package orders

import (
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Change converts what a living cluster takes of a changed cluster file. resized: sizes of groups or their scaling are among what differs.
func Change(s *spec.ClusterSpec, resized bool) keeper.Change {
	c := keeper.Change{
		SpecHash: spec.Hash(s), Lifetime: keeper.ChangedLifetime{Max: Seconds(s.Lifetime.Max), Idle: Seconds(s.Lifetime.Idle), IdleGPU: Seconds(s.Lifetime.IdleGPU)},
		Groups: map[string][3]int{}, Scaling: Scaling(s), Resized: resized,
	}
	for _, g := range s.NodeGroups() {
		group := Group(g)
		c.Groups[g.Name] = [3]int{group.Count, max(group.Count, group.Max), group.Initial}
	}
	return c
}
