package spec

import (
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"
)

// NodeGroup is a group of equal Ray nodes to start; the head's own node is a group too.
type NodeGroup struct {
	// Name is the worker group's name, or head for a node of the head's own.
	Name string
	// Count, Min and Max are numbers of nodes.
	Count, Min, Max int
	// Head is true if the group's first node is Ray's head.
	Head bool
	// Tasks is true if Ray may run tasks on these nodes; false only for a head with a node of its own beside workers.
	Tasks bool
	NodeResources
}

// Elastic reports whether there may be more nodes of the group than the required ones.
func (g NodeGroup) Elastic() bool { return g.Max > g.Min }

// Path is the group's key in the file.
func (g NodeGroup) Path() string {
	if g.Name == HeadGroupName {
		return HeadGroupName
	}
	return Join("workers", g.Name)
}

// NodeGroups lists all nodes of the cluster by group, the head's group first, then in the file's order. Default must have been called.
func (s *ClusterSpec) NodeGroups() []NodeGroup {
	own := NodeGroup{Name: HeadGroupName, Count: 1, Min: 1, Max: 1, Head: true, Tasks: len(s.Workers) == 0, NodeResources: s.Head.NodeResources}
	if own.Image == "" {
		own.Image = s.Image
	}
	if own.Tasks {
		own.Resources = s.withAccelerator(&own.NodeResources)
	}
	groups := make([]NodeGroup, 0, len(s.Workers)+1)
	if s.HeadGroup() == nil {
		groups = append(groups, own)
	}
	for _, w := range s.Workers {
		g := NodeGroup{Name: w.Name, Count: value(w.Replicas, 1), Tasks: true, NodeResources: w.NodeResources}
		g.Min, g.Max = value(w.MinReplicas, g.Count), value(w.MaxReplicas, g.Count)
		if g.Image == "" {
			g.Image = s.Image
		}
		g.Resources = s.withAccelerator(&g.NodeResources)
		if g.Head = w.Name == s.Head.On; g.Head {
			groups = slices.Insert(groups, 0, g)
		} else {
			groups = append(groups, g)
		}
	}
	return groups
}

// leastStore is the least that Ray takes for an object store (OBJECT_STORE_MINIMUM_MEMORY_BYTES).
var leastStore = resource.MustParse("75Mi")

// nodeOptions is the version of Ray from which `ray start` takes labels and a directory for spilled objects, as rayctl gives them.
const nodeOptions = "2.49.0"

// HasOlderRay reports whether the file names a version of Ray before that one.
func (s *ClusterSpec) HasOlderRay(least string) bool {
	return s.Ray.Version != "" && olderThan(s.Ray.Version, least)
}

// ElasticRay is the first Ray that is started with labels and ports as its autoscaler's nodes need them; the tests run 2.60.
const ElasticRay = "2.49.0"

// Elastic checks an elastic group of a launcher that starts Ray's autoscaler itself.
func (v *Validator) Elastic(s *ClusterSpec, g NodeGroup) {
	v.FailIf(s.HasOlderRay(ElasticRay), g.Path()+".maxReplicas", "make it equal to minReplicas, or set a later ray.version",
		"Ray %s is too old for elastic groups here: they need %s or later", s.Ray.Version, ElasticRay)
	for _, name := range slices.Sorted(maps.Keys(g.Resources)) {
		n := g.Resources[name]
		v.FailIf(n != math.Trunc(n), Join(g.Path()+".resources", name), "use a whole number", "Ray's autoscaler cannot count %v of it in an elastic group", n)
	}
}

func olderThan(ray, least string) bool {
	v, err := version.ParseGeneric(ray)
	return err == nil && v.LessThan(version.MustParseGeneric(least))
}

// nodeLabels checks Ray's labels of nodes: Kubernetes' syntax, without the prefixes that Ray and rayctl set themselves.
func (v *Validator) nodeLabels(p string, labels map[string]string) {
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		lp := Printable(Join(p, k))
		v.label(lp, k, labels[k])
		v.FailIf(strings.HasPrefix(k, "ray.io/"), lp, "choose another key", "keys that begin with ray.io/ are Ray's own")
		v.FailIf(strings.HasPrefix(k, "rayctl.io/"), lp, "choose another key", "keys that begin with rayctl.io/ are rayctl's own")
	}
}

// label checks the syntax of Kubernetes' labels.
func (v *Validator) label(p, key, value string) {
	v.FailIf(len(validation.IsQualifiedName(key)) > 0, p, "use at most 63 letters, digits, -, _ and ., optionally after a DNS name and /",
		"%q is not a label's key", key)
	v.FailIf(len(validation.IsValidLabelValue(value)) > 0, p, "use at most 63 letters, digits, -, _ and .", "%q is not a label's value", value)
}

// acceleratorPrefix begins the resource by which Ray finds nodes for accelerator_type; nodes have one of it (RESOURCE_CONSTRAINT_PREFIX of Ray 2.60).
const acceleratorPrefix = "accelerator_type:"

// withAccelerator are the custom resources of nodes, with their type of GPU: Ray itself finds out some types, by names of its own.
func (s *ClusterSpec) withAccelerator(r *NodeResources) map[string]float64 {
	if r.GPUs == 0 || r.GPUType == "" {
		return r.Resources
	}
	name := s.GPUTypes[r.GPUType].AcceleratorType
	if name == "" {
		name = strings.ToUpper(r.GPUType)
	}
	out := map[string]float64{acceleratorPrefix + name: 1}
	maps.Copy(out, r.Resources)
	return out
}

// HeadGroup is the worker group whose first worker is also the head; nil if the head has a node of its own.
func (s *ClusterSpec) HeadGroup() *WorkerGroup {
	if s.Head.On == "" {
		return nil
	}
	return s.Group(s.Head.On)
}

// Group finds a worker group by name; nil if there is none.
func (s *ClusterSpec) Group(name string) *WorkerGroup {
	i := slices.IndexFunc(s.Workers, func(g WorkerGroup) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Workers[i]
}

// TotalNodes is the number of Ray nodes at the start, the head's among them.
func (s *ClusterSpec) TotalNodes() (n int) {
	for _, g := range s.NodeGroups() {
		n += g.Count
	}
	return n
}

// GangNodes is the number of Ray nodes that must start together: the head and every group's minReplicas.
func (s *ClusterSpec) GangNodes() (n int) {
	for _, g := range s.NodeGroups() {
		n += g.Min
	}
	return n
}

// IsElastic reports whether the cluster has an elastic group.
func (s *ClusterSpec) IsElastic() bool { return slices.ContainsFunc(s.NodeGroups(), NodeGroup.Elastic) }

// MostNodes is the number of Ray nodes that there may be, the head's among them.
func (s *ClusterSpec) MostNodes() (n int) {
	for _, g := range s.NodeGroups() {
		n += g.Max
	}
	return n
}

// TotalGPUs is the number of GPUs at the start.
func (s *ClusterSpec) TotalGPUs() (n int) {
	for _, g := range s.NodeGroups() {
		n += g.Count * g.GPUs
	}
	return n
}

// StartWithHead is the job.start of a driver that does not wait for the workers.
const StartWithHead = "head"

// IsGang reports whether the cluster starts as a whole or not at all.
func (s *ClusterSpec) IsGang() bool { return value(s.Gang, true) }

// OutputDirFor is job.outputDir with {name} replaced by the run's name.
func (j *Job) OutputDirFor(name string) string {
	return strings.ReplaceAll(j.OutputDir, "{name}", name)
}

// HasLocalWorkingDir reports whether a directory of this client is to be packed.
func (j *Job) HasLocalWorkingDir() bool { return j.WorkingDir != "" && !IsURI(j.WorkingDir) }

func value[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
