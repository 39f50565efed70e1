// Package ignored makes the sentences about keys of the cluster file that a launcher has no use for.
package ignored

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
)

// Nodes is about a key of the head and of groups, where it is set; why is the reason and the next step.
func Nodes(s *spec.ClusterSpec, key, why string, set func(spec.NodeGroup) bool) []string {
	var keys []string
	for _, g := range s.NodeGroups() {
		if set(g) {
			keys = append(keys, g.Path()+"."+key)
		}
	}
	return about(keys, why)
}

// Shm is about shm where no pod has a /dev/shm of its own.
func Shm(s *spec.ClusterSpec) []string {
	return Nodes(s, "shm", "/dev/shm is the machine's; objectStoreMemory is the size of Ray's object store", func(g spec.NodeGroup) bool { return !g.Shm.IsZero() })
}

// Images is about images of groups where nodes run in no containers; that of the cluster is named with its origin by cmd/config.
func Images(s *spec.ClusterSpec) []string {
	return Nodes(s, "image", "nodes run in no containers here", func(g spec.NodeGroup) bool { return g.Image != "" && g.Image != s.Image })
}

// IdleHead is about what a head of its own asks for where nothing but Ray's own count would follow from it.
func IdleHead(s *spec.ClusterSpec) (all []string) {
	why := "a head beside workers takes no tasks, and has no part of the machine to itself"
	if s.Head.On == "" { // then the key is what gives it a node
		why += "; `head: {on: head}` is enough to give it a node of its own"
	}
	all = append(all, Nodes(s, "cpus", why, func(g spec.NodeGroup) bool { return !g.Tasks && g.CPUs > 0 })...)
	all = append(all, Nodes(s, "gpus", why, func(g spec.NodeGroup) bool { return !g.Tasks && g.GPUs > 0 })...)
	return all
}

// PartsOfCPUs is about cpus that are not whole where nothing limits what a node uses, so that only Ray's own count would follow from them.
func PartsOfCPUs(s *spec.ClusterSpec) (all []string) {
	for _, g := range s.NodeGroups() {
		if cpus := float64(g.CPUs); g.Tasks && cpus != math.Trunc(cpus) {
			all = append(all, fmt.Sprintf("%s.cpus: %g is rounded up to %.0f, because Ray counts whole CPUs", g.Path(), cpus, math.Ceil(cpus)))
		}
	}
	return all
}

// Scaling is about scaling where no group is elastic.
func Scaling(s *spec.ClusterSpec) []string {
	if s.Scaling == (spec.Scaling{}) || s.IsElastic() {
		return nil
	}
	return about([]string{"scaling"}, "no group has a maxReplicas above its minReplicas")
}

// MaxAllocations is about scaling.maxAllocations where somebody else starts the nodes.
func MaxAllocations(s *spec.ClusterSpec, why string) []string {
	if s.Scaling.MaxAllocations == 0 {
		return nil
	}
	return about([]string{"scaling.maxAllocations"}, why)
}

// IdleGPU is about lifetime.idleGpu where no group has gpus: what nodes have besides is not measured.
func IdleGPU(s *spec.ClusterSpec) []string {
	if _, bound := s.Lifetime.IdleGPU.Bound(); !bound || slices.ContainsFunc(s.NodeGroups(), func(g spec.NodeGroup) bool { return g.Tasks && g.GPUs > 0 }) {
		return nil
	}
	return about([]string{"lifetime.idleGpu"}, "no group has gpus")
}

// Gang is about gang: false where all required nodes start together.
func Gang(s *spec.ClusterSpec, where string) []string {
	if s.IsGang() {
		return nil
	}
	return about([]string{"gang: false"}, "all required nodes start together "+where)
}

// ReadOnly is about mounts where nothing is mounted.
func ReadOnly(s *spec.ClusterSpec) []string {
	var keys []string
	for i, m := range s.Mounts {
		if m.ReadOnly {
			keys = append(keys, fmt.Sprintf("mounts[%d].readOnly", i))
		}
	}
	return about(keys, "without a container nothing is mounted, and the directory's own permissions decide whether it can be written")
}

func about(keys []string, why string) []string {
	switch len(keys) {
	case 0:
		return nil
	case 1:
		return []string{keys[0] + " is ignored: " + why}
	default:
		last := len(keys) - 1
		return []string{strings.Join(keys[:last], ", ") + " and " + keys[last] + " are ignored: " + why}
	}
}
