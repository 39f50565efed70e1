package observe

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// headOnly is the group of a head that has one of its own.
const headOnly = "head"

// mergedGroups counts what an autoscaled cluster has now, with the sizes that are in force: the keeper's groups have those of the launch. shown is what Kubernetes
// has, where the head is always a group of its own; of the keeper's it is the first node of the first group.
func mergedGroups(s launcher.Status, shown []runstate.Group) []runstate.Group {
	if len(s.Groups) == 0 {
		return withoutFixedSizes(shown)
	}
	alive := map[string]int{}
	for _, n := range s.Nodes {
		if n.State == runstate.NodeAlive {
			alive[n.Group]++
		}
	}
	out, apart := slices.Clone(s.Groups), s.Groups[0].Name == headOnly
	for _, g := range shown {
		i := slices.IndexFunc(out, func(k runstate.Group) bool { return k.Name == g.Name })
		switch {
		case i < 0 && g.Name == headOnly:
			continue // counted with its group
		case i < 0:
			out = append(out, withoutFixedSizes([]runstate.Group{g})...)
			continue
		case i == 0 && !apart:
			g.Wanted, g.Min, g.Max = g.Wanted+1, g.Min+1, g.Max+1
		}
		if out[i].Max > 0 {
			out[i].Min, out[i].Max = g.Min, g.Max
		}
		out[i].Wanted = max(out[i].Wanted, g.Wanted)
		out[i].Ready = max(out[i].Ready, min(alive[g.Name], out[i].Wanted))
	}
	return out
}

// withoutFixedSizes leaves least and most to groups that are elastic.
func withoutFixedSizes(groups []runstate.Group) []runstate.Group {
	out := slices.Clone(groups)
	for i := range out {
		if out[i].Min == out[i].Max {
			out[i].Min, out[i].Max = 0, 0
		}
	}
	return out
}

// queuedNodes are the pods of elastic groups above their least that have no node yet, with the scheduler's reason. The keeper has those that have joined.
func (o *Snapshot) queuedNodes() (out []runstate.Allocation) {
	if !o.autoscaled() {
		return nil
	}
	for _, g := range o.Cluster.Spec.WorkerGroupSpecs {
		placed, waiting := 0, []*corev1.Pod(nil)
		for _, p := range o.rayPods() {
			switch {
			case p.Labels[objects.RayGroupLabel] != g.GroupName || p.DeletionTimestamp != nil:
			case p.Spec.NodeName != "":
				placed++
			default:
				waiting = append(waiting, p)
			}
		}
		required := max(0, int(ptr.Deref(g.MinReplicas, 0))-placed)
		for _, p := range waiting[min(required, len(waiting)):] {
			out = append(out, runstate.Allocation{
				ID: p.Name, Purpose: runstate.PurposeElastic, Groups: map[string]int{g.GroupName: 1}, State: runstate.AllocationQueued,
				Queued: ptr.To(p.CreationTimestamp.UTC()), Message: o.waitsFor(p),
			})
		}
	}
	return out
}

// waitsFor is why a pod has no node; "" before its scheduler has looked at it.
func (o *Snapshot) waitsFor(p *corev1.Pod) string {
	message := NotScheduled(p)
	if message == "" {
		return ""
	}
	return o.withNodesMade([]*corev1.Pod{p}, runstate.Reason{Message: "no node has room: " + message}).Message
}
