package orders

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Node is what Ray has on one node, for a driver that reserves a part of it.
type Node struct {
	Name string
	// Has are Ray's resources of the node; unknown ones are infinite.
	Has map[string]float64
	// Labels are the node's. OwnLabels is false where those are missing that Ray itself gives.
	Labels    map[string]string
	OwnLabels bool
}

// NodesOf is what a node of each of these groups will have for a job, as far as the cluster's file says it; what it does not say is infinite. known is false where the file has not all of the groups.
func NodesOf(s *spec.ClusterSpec, j *spec.Job, names []string) (nodes []Node, known bool) {
	for _, g := range s.NodeGroups() {
		if !slices.Contains(names, g.Name) {
			continue
		}
		n := Node{Name: "group " + g.Name, Has: map[string]float64{"CPU": math.Inf(1), "GPU": float64(g.GPUs), "memory": math.Inf(1)}, Labels: groupLabels(g)}
		maps.Copy(n.Has, g.Resources)
		if g.CPUs > 0 {
			n.Has["CPU"] = math.Ceil(float64(g.CPUs))
		}
		if !g.Memory.IsZero() {
			n.Has["memory"] = g.Memory.AsApproximateFloat64()
		}
		if !g.Tasks {
			n.Has["CPU"], n.Has["GPU"] = 0, 0
		}
		n.addByRay(j)
		nodes = append(nodes, n)
	}
	return nodes, len(nodes) == len(names)
}

// groupLabels are the labels of a group's nodes but for Ray's own.
func groupLabels(g spec.NodeGroup) map[string]string {
	labels := map[string]string{}
	maps.Copy(labels, g.Labels)
	labels["rayctl.io/group"] = g.Name
	return labels
}

// addByRay adds those resources of a job that Ray may find on the node by itself.
func (n Node) addByRay(j *spec.Job) {
	for name := range j.EntrypointResources {
		if slices.ContainsFunc(byRay, func(own string) bool { return strings.HasPrefix(name, own) }) {
			n.Has[name] = math.Inf(1)
		}
	}
}

// byRay are resources that Ray finds on a node by itself (ray/_private/accelerators, 2.60), and the prefixes of others.
var byRay = []string{"TPU", "neuron_cores", "HPU", "NPU", "RBLN", "FURIOSA", "node:"}

// FitsGroups refuses a driver that reserves more than a node of any group has, of those that the cluster may have: Ray would wait for such a node for ever.
func FitsGroups(s *spec.ClusterSpec, groups []keeper.Group) error {
	labels, memory := map[string]map[string]string{}, map[string]float64{}
	for _, g := range s.NodeGroups() {
		if memory[g.Name] = math.Inf(1); !g.Memory.IsZero() {
			memory[g.Name] = g.Memory.AsApproximateFloat64()
		}
		labels[g.Name] = groupLabels(g)
	}
	nodes := make([]Node, len(groups))
	for i, g := range groups {
		nodes[i] = Node{Name: "group " + g.Name, Has: map[string]float64{}, Labels: labels[g.Name]}
		maps.Copy(nodes[i].Has, g.Resources)
		nodes[i].Has["CPU"], nodes[i].Has["GPU"], nodes[i].Has["memory"] = known(g.CPUs), known(g.GPUs), memory[g.Name]
		if g.Memory != nil {
			nodes[i].Has["memory"] = float64(*g.Memory)
		}
		nodes[i].addByRay(&s.Job)
	}
	if err := fitsRanks(s, groups); err != nil {
		return err
	}
	return Fits(&s.Job, nodes)
}

func known(n *float64) float64 {
	if n == nil {
		return math.Inf(1)
	}
	return *n
}

// need is one part of a reservation.
type need struct {
	key, resource, what string // what: the sentence's object
	amount              float64
}

// Fits refuses a driver that reserves more than any of these nodes has.
func Fits(j *spec.Job, nodes []Node) error {
	if len(nodes) == 0 {
		return nil
	}
	for _, n := range needs(j) {
		if least(nodes, n) {
			continue
		}
		best := slices.MaxFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Has[n.resource], b.Has[n.resource]) })
		return launcher.Fail(runstate.CodeSpec, nil, "lower it, or give a group nodes that have it",
			"%s: the driver reserves %s on one node, and no node of the cluster has more than %s (%s)", n.key, n.what, amount(n.resource, best.Has[n.resource]), best.Name)
	}
	for _, key := range slices.Sorted(maps.Keys(j.EntrypointLabelSelector)) {
		selector := j.EntrypointLabelSelector[key]
		if !slices.ContainsFunc(nodes, func(n Node) bool { return n.selected(key, selector) }) {
			return launcher.Fail(runstate.CodeSpec, nil, "correct it, or give a group that label",
				"job.entrypointLabelSelector: no node of the cluster has a label %s that is %s", key, strconv.Quote(selector))
		}
	}
	if !slices.ContainsFunc(nodes, func(n Node) bool { return n.fits(j) }) {
		return launcher.Fail(runstate.CodeSpec, nil, "lower one of them, or give a group nodes that have all", "no node of the cluster has all that the driver reserves together: %s", Reserved(j))
	}
	return nil
}

// Reserved is what the driver reserves, as a part of a sentence; "" if that is nothing.
func Reserved(j *spec.Job) string {
	var parts []string
	for _, n := range needs(j) {
		parts = append(parts, n.what)
	}
	for _, key := range slices.Sorted(maps.Keys(j.EntrypointLabelSelector)) {
		parts = append(parts, "label "+key+"="+j.EntrypointLabelSelector[key])
	}
	return strings.Join(parts, ", ")
}

func needs(j *spec.Job) (out []need) {
	add := func(key, resource string, n float64) {
		if n > 0 {
			out = append(out, need{key, resource, amount(resource, n), n})
		}
	}
	add("job.entrypointCpus", "CPU", float64(j.EntrypointCPUs))
	add("job.entrypointGpus", "GPU", j.EntrypointGPUs)
	add("job.entrypointMemory", "memory", float64(j.EntrypointMemory.Value()))
	for _, name := range slices.Sorted(maps.Keys(j.EntrypointResources)) {
		add(spec.Join("job.entrypointResources", name), name, j.EntrypointResources[name])
	}
	return out
}

func amount(name string, n float64) string {
	number := strconv.FormatFloat(n, 'f', -1, 64)
	switch {
	case name == "memory":
		return fmt.Sprintf("%.4g GiB of memory", n/(1<<30))
	case (name == "CPU" || name == "GPU") && n != 1:
		return number + " " + name + "s"
	}
	return number + " " + name
}

func least(nodes []Node, n need) bool {
	return slices.ContainsFunc(nodes, func(node Node) bool { return node.Has[n.resource] >= n.amount })
}

func (n Node) fits(j *spec.Job) bool {
	for _, part := range needs(j) {
		if n.Has[part.resource] < part.amount {
			return false
		}
	}
	for key, selector := range j.EntrypointLabelSelector {
		if !n.selected(key, selector) {
			return false
		}
	}
	return true
}

// selected reports whether a label is as a selector of Ray has it: a value, in(a,b), and either with ! before it. What is not known is.
func (n Node) selected(key, selector string) bool {
	if n.Labels == nil || !n.OwnLabels && strings.HasPrefix(key, "ray.io/") {
		return true
	}
	selector, not := strings.CutPrefix(strings.TrimSpace(selector), "!")
	values := []string{selector}
	if list, ok := strings.CutPrefix(selector, "in("); ok {
		values = strings.Split(strings.TrimSuffix(list, ")"), ",")
	}
	value, has := n.Labels[key]
	return (has && slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == value })) != not
}
