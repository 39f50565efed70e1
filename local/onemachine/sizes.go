package onemachine

import (
	"fmt"
	"math"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/localspec"
)

// sizeNotes are about sizes of nodes that are, all together, more than the machine has. Ray takes them: they are its own count.
func sizeNotes(s *spec.ClusterSpec, m machine) (notes []string) {
	cpus, memory, nodes := 0.0, int64(0), 0
	for _, g := range s.NodeGroups() {
		nodes += g.Count
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
		notes = append(notes, fmt.Sprintf("the nodes have %.1f GiB of memory together, but this machine has %.1f GiB: %s", gibibytes(memory), gibibytes(m.Memory), share))
	}
	if m.CPUs > 0 && nodes > mostNodes*m.CPUs || m.Memory > 0 && int64(nodes)*nodeMemory > m.Memory {
		notes = append(notes, fmt.Sprintf("%d Ray nodes are many for this machine with %d processors and %.1f GiB of memory: each needs several processes and about %.1f GiB before any task runs",
			nodes, m.CPUs, gibibytes(m.Memory), gibibytes(nodeMemory)))
	}
	return notes
}

// checkNodeCount refuses more nodes than the machine could ever start: it would swap, or have no process ids left, before the first is ready.
func checkNodeCount(s *spec.ClusterSpec, m machine) error {
	nodes, most := 0, localspec.MaxNodes(s)
	for _, g := range s.NodeGroups() {
		nodes += g.Count
	}
	if most == 0 {
		most = mostStarted(m)
	}
	if nodes <= most {
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, nil, fmt.Sprintf("ask for fewer workers (--workers), choose another launcher, or give --set local.maxNodes=%d (local.maxNodes in the cluster file)", nodes),
		"the cluster begins with %d Ray nodes, but at most %d are started on this machine with %d processors and %.1f GiB of memory", nodes, most, m.CPUs, gibibytes(m.Memory))
}

// mostStarted is how many nodes are started without local.maxNodes.
func mostStarted(m machine) int {
	most := math.MaxInt
	if m.CPUs > 0 {
		most = startedNodes * m.CPUs
	}
	if m.Memory > 0 {
		most = min(most, max(1, int(memoryShare*m.Memory/nodeMemory)))
	}
	return most
}

func gibibytes(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// What a Ray node needs by itself: raylet, agents and the first idle workers. These are estimates: a note is for what may be slow, and only several times
// as much is refused.
const (
	mostNodes    = 8  // for each processor, without a note
	startedNodes = 32 // for each processor
	nodeMemory   = 1 << 29
	memoryShare  = 2 // of the machine's memory
)
