package script

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Partition is a partition as Slurm's controller reports it.
type Partition struct {
	Name    string
	Default bool          // the one of jobs that name none
	Nodes   int           // that a job may have at most, whatever state they are in
	Time    time.Duration // that a job may ask for at most; 0: without a limit
}

// PartitionsOf are those of all that a job may run in by this list of names; "" is the default one. Names that are not known are left out.
func PartitionsOf(names string, all []Partition) (out []Partition) {
	for _, part := range all {
		if names == "" && (part.Default || len(all) == 1) || slices.Contains(strings.Split(names, ","), part.Name) {
			out = append(out, part)
		}
	}
	return out
}

// Within is the plan for a cluster with these partitions: what the end takes after lifetime.max is left out where a partition would refuse it, but not
// lifetime.max.
func (p Plan) Within(all []Partition) Plan {
	p.partitions = all
	most, bound := p.Spec.Lifetime.Max.Bound()
	for _, c := range slices.Concat(p.Components(), p.Gang()) {
		for _, part := range PartitionsOf(c.Request.Slurm.Partition, all) {
			if bound && part.Time >= most && (p.longest == 0 || part.Time < p.longest) {
				p.longest = part.Time
			}
		}
	}
	return p
}

// TooLarge describes by how much a component requests more nodes than any of its partitions gives a job; "" if one gives so many. Workers that
// Slurm places may all be on one node.
func (p Plan) TooLarge(component int, partition string, all []Partition) string {
	if p.placedBySlurm() || component >= len(p.Components()) {
		return ""
	}
	asked, most := p.Components()[component].Nodes, 0
	for _, part := range PartitionsOf(partition, all) {
		most = max(most, part.Nodes)
	}
	if most == 0 || asked <= most {
		return ""
	}
	return fmt.Sprintf("it asks for %d nodes, and a job may have %d in partition %s", asked, most, partition)
}
