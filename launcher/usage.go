package launcher

import (
	"slices"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Usage is what a run cost, in seconds times nodes or GPUs. Each allocation counts from its grant to its release.
type Usage struct {
	Nodes             int     `json:"nodes"` // the largest number at one time
	GPUs              float64 `json:"gpus"`
	NodeSeconds       float64 `json:"nodeSeconds"`
	BusyNodeSeconds   float64 `json:"busyNodeSeconds"`   // while the driver ran
	WastedNodeSeconds float64 `json:"wastedNodeSeconds"` // the rest
	GPUSeconds        float64 `json:"gpuSeconds"`
	BusyGPUSeconds    float64 `json:"busyGpuSeconds"`
	WastedGPUSeconds  float64 `json:"wastedGpuSeconds"`
	// MeasuredGPUSeconds are the GPU-seconds that NVML or nvidia-smi has measured; MeasuredBusyGPUSeconds are those of them in which a kernel ran.
	MeasuredGPUSeconds     float64 `json:"measuredGpuSeconds"`
	MeasuredBusyGPUSeconds float64 `json:"measuredBusyGpuSeconds"`
}

// usage counts allocated nodes and GPUs, without time in the queue. Where nodes are allocated one by one, and the cluster ended before all were
// there, only the nodes known to Ray count. A record without a main allocation, such as one of a cluster without a keeper, is counted by its timeline.
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
	wholes := held(r, runstate.PurposeMain)
	switch {
	case len(held(r, runstate.PurposeHead)) > 0:
		u = Usage{} // an early head: each node is of another allocation
	case len(wholes) > 0:
		for _, there := range wholes {
			u.add(n, gpus, there.seconds(), there.busy(drivers))
		}
	case reached(r.Timeline, runstate.Provisioning, runstate.Starting, runstate.Ready): // otherwise the cluster ended in the queue and had no nodes
		allocated := max(d.Total-d.Queued-d.Installing, 0)
		u.add(n, gpus, allocated, min(d.Driver, allocated))
	}
	u.addOthers(r, drivers)
	for _, g := range r.GPUs {
		u.MeasuredGPUSeconds += g.Seconds
		u.MeasuredBusyGPUSeconds += g.BusySeconds
	}
	return u
}

// held returns the spans of time in which allocations of a purpose held their nodes.
func held(r *Result, purpose string) (spans []span) {
	for _, a := range runstate.Of(r.Allocations, purpose) {
		if a.Granted != nil {
			spans = append(spans, heldBy(a, r.Since))
		}
	}
	return spans
}

// heldBy is the span of time in which a granted allocation held its nodes; the last argument is the time of the cluster's end.
func heldBy(a runstate.Allocation, end time.Time) span {
	if a.Released != nil {
		end = *a.Released
	}
	return span{*a.Granted, end}
}

// reached reports whether the cluster ever was in one of these phases.
func reached(timeline []runstate.Event, phases ...runstate.Phase) bool {
	return slices.ContainsFunc(timeline, func(e runstate.Event) bool {
		return e.Kind == runstate.EventPhase && slices.Contains(phases, runstate.Phase(e.To))
	})
}

// add adds the seconds in which a number of nodes was allocated and busy.
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

// busy is the number of seconds of s in which a driver ran.
func (s span) busy(drivers []span) (busy float64) {
	for _, driver := range drivers {
		busy += s.within(driver).seconds()
	}
	return busy
}

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

// addOthers adds the nodes of all allocations except the main one, each for the time in which it was held, and updates the largest number of nodes at one time. Of
// several groups whose nodes are sums only, that is the number of one group.
func (u *Usage) addOthers(r *Result, drivers []span) {
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
		if a.Granted == nil || a.Purpose == runstate.PurposeMain {
			continue
		}
		there := heldBy(a, r.Since)
		n, g := 0.0, 0.0
		for group, count := range a.Groups {
			n += float64(count)
			g += float64(count) * gpus[group]
		}
		u.add(n, g, there.seconds(), there.busy(drivers))
		changes = append(changes, change{there.from, n, g}, change{there.to, -n, -g})
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	nodes, most, g, mostGPUs := 0.0, 0.0, 0.0, 0.0
	for _, c := range changes {
		nodes, g = nodes+c.nodes, g+c.gpus
		most, mostGPUs = max(most, nodes), max(mostGPUs, g)
	}
	for _, f := range r.FormerAllocations {
		u.add(1, gpus[f.Group], f.NodeSeconds, f.BusyNodeSeconds)
		most, mostGPUs = max(most, float64(f.Most)), max(mostGPUs, float64(f.Most)*gpus[f.Group])
	}
	u.Nodes += int(most)
	u.GPUs += mostGPUs
}
