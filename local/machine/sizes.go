package machine

import (
	"fmt"
	"math"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Notes are about sizes of nodes that are, all together, more than the machine has. Ray takes them: they are its own count.
func Notes(s *spec.ClusterSpec, m Machine) (notes []string) {
	cpus, memory := 0.0, int64(0)
	for _, g := range s.NodeGroups() {
		if g.Tasks {
			cpus += float64(g.Count) * math.Ceil(float64(g.CPUs))
			memory += int64(g.Count) * g.Memory.Value()
		}
	}
	const share = "Ray starts as many tasks at once as the nodes' sizes allow, and they share what there is"
	if m.CPUs > 0 && cpus > float64(m.CPUs) {
		notes = append(notes, fmt.Sprintf("the nodes have %g CPUs together, but this machine has %d: %s", cpus, m.CPUs, share))
	}
	if m.Memory > 0 && memory > m.Memory {
		notes = append(notes, fmt.Sprintf("the nodes have %.1f GiB of memory together, but this machine has %.1f GiB: %s", float64(memory)/(1<<30), float64(m.Memory)/(1<<30), share))
	}
	return notes
}
