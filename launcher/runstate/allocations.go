package runstate

import (
	"fmt"
	"slices"
	"time"
)

// Asked are the allocations of earlier attempts and the one that is requested from a substrate with a queue before the cluster has a keeper: that of all required
// nodes, or with an early head that of the head alone.
func Asked(earlier []Allocation, groups []Group, early bool, at time.Time) []Allocation {
	a := Allocation{Purpose: PurposeMain, Groups: map[string]int{}, State: AllocationQueued, Queued: &at}
	if early {
		a.Purpose, groups = PurposeHead, groups[:min(1, len(groups))]
	}
	a.ID = fmt.Sprintf("%s.%d", a.Purpose, 1+len(Of(earlier, a.Purpose))) // as keeper/rayctl_keeper/run/allocations/allocations.py counts
	for _, g := range groups {
		if n := g.Required(); n > 0 {
			a.Groups[g.Name] = n
		}
	}
	return append(Released(earlier, at), a)
}

// Of are the allocations of a purpose.
func Of(all []Allocation, purpose string) (found []Allocation) {
	for _, a := range all {
		if a.Purpose == purpose {
			found = append(found, a)
		}
	}
	return found
}

// Released are allocations of a cluster that has none any more since then, whose keeper may have been killed before it could record that.
func Released(all []Allocation, at time.Time) []Allocation {
	all = slices.Clone(all)
	for i := range all {
		if a := &all[i]; a.State != AllocationReleased {
			a.State, a.Released, a.Expected = AllocationReleased, &at, nil
			a.Message = "it ended with its cluster"
		}
	}
	return all
}
