package launcher

import (
	"slices"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Usage is what a run cost, in seconds times nodes or GPUs. Allocated counts from the gang's admission to the end, for a node of an elastic group from
// its start to its end, and for an early head from its own admission.
type Usage struct {
	Nodes             int     `json:"nodes"` // the most at a time
	GPUs              float64 `json:"gpus"`
	NodeSeconds       float64 `json:"nodeSeconds"`
	BusyNodeSeconds   float64 `json:"busyNodeSeconds"`   // while the driver ran
	WastedNodeSeconds float64 `json:"wastedNodeSeconds"` // the rest
	GPUSeconds        float64 `json:"gpuSeconds"`
	BusyGPUSeconds    float64 `json:"busyGpuSeconds"`
	WastedGPUSeconds  float64 `json:"wastedGpuSeconds"`
	// MeasuredGPUSeconds and MeasuredBusyGPUSeconds are what NVML or nvidia-smi has seen: the second are those in which a kernel ran.
	MeasuredGPUSeconds     float64 `json:"measuredGpuSeconds"`
	MeasuredBusyGPUSeconds float64 `json:"measuredBusyGpuSeconds"`
}

// usage counts allocated nodes and GPUs, without time in the queue. Where nodes are allocated one by one, and the cluster ended before all were
// there, only the nodes known to Ray count.
func usage(r *Result, d Durations, drivers []span) Usage {
	var u Usage
	n, gpus := 0.0, 0.0 // allocated
	for _, g := range r.Groups {
		required := g.Required()
		u.Nodes += required
		u.GPUs += float64(required) * g.GPUs
		n += float64(min(g.Ready, required))
		gpus += float64(min(g.Ready, required)) * g.GPUs
	}
	if !spec.SubstrateOf(r.Launcher).SingleNodes || reached(r.Timeline, runstate.Ready) {
		n, gpus = float64(u.Nodes), u.GPUs // allocated together
	}
	n = max(n, min(1, float64(u.Nodes))) // the head's pod counts even if it did not answer
	allocated := max(d.Total-d.Queued-d.Installing, 0)
	if !reached(r.Timeline, runstate.Provisioning, runstate.Starting, runstate.Ready) {
		allocated = 0 // the cluster ended in the queue and had no nodes
	}
	if slices.ContainsFunc(r.Allocations, func(a runstate.Allocation) bool { return a.Purpose == runstate.PurposeHead }) {
		u = Usage{} // an early head: each node is of an allocation
	} else {
		u.add(n, gpus, allocated, min(d.Driver, allocated))
	}
	u.addAllocations(r, drivers)
	for _, g := range r.GPUs {
		u.MeasuredGPUSeconds += g.Seconds
		u.MeasuredBusyGPUSeconds += g.BusySeconds
	}
	return u
}

// reached reports whether the cluster ever was in one of these phases.
func reached(timeline []runstate.Event, phases ...runstate.Phase) bool {
	return slices.ContainsFunc(timeline, func(e runstate.Event) bool {
		return e.Kind == runstate.EventPhase && slices.Contains(phases, runstate.Phase(e.To))
	})
}

// add counts nodes that were allocated, and busy, for so many seconds.
func (u *Usage) add(nodes, gpus, allocated, busy float64) {
	u.NodeSeconds += nodes * allocated
	u.BusyNodeSeconds += nodes * busy
	u.WastedNodeSeconds += nodes * (allocated - busy)
	u.GPUSeconds += gpus * allocated
	u.BusyGPUSeconds += gpus * busy
	u.WastedGPUSeconds += gpus * (allocated - busy)
}

// span is a stretch of time.
type span struct{ from, to time.Time }

func (s span) seconds() float64 { return max(seconds(s.from, s.to), 0) }

// within is the part of s in other.
func (s span) within(other span) span {
	if other.from.After(s.from) {
		s.from = other.from
	}
	if other.to.Before(s.to) {
		s.to = other.to
	}
	return s
}

// addAllocations counts nodes that have an allocation besides the cluster's, each for as long as it was there, and the most nodes at a time.
func (u *Usage) addAllocations(r *Result, drivers []span) {
	gpus := map[string]float64{}
	for _, g := range r.Groups {
		gpus[g.Name] = g.GPUs
	}
	type change struct {
		at          time.Time
		nodes, gpus float64
	}
	var changes []change
	for _, a := range r.Allocations {
		if a.Granted == nil {
			continue
		}
		there := span{*a.Granted, r.Since}
		if a.Released != nil {
			there.to = *a.Released
		}
		busy := 0.0
		for _, driver := range drivers {
			busy += there.within(driver).seconds()
		}
		n, g := 0.0, 0.0
		for group, count := range a.Groups {
			n += float64(count)
			g += float64(count) * gpus[group]
		}
		u.add(n, g, there.seconds(), busy)
		changes = append(changes, change{there.from, n, g}, change{there.to, -n, -g})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	nodes, most, g, mostGPUs := 0.0, 0.0, 0.0, 0.0
	for _, c := range changes {
		nodes, g = nodes+c.nodes, g+c.gpus
		most, mostGPUs = max(most, nodes), max(mostGPUs, g)
	}
	u.Nodes += int(most)
	u.GPUs += mostGPUs
}
