package advise

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rayctl/rayctl/cmd/config"
	"github.com/rayctl/rayctl/launcher/spec"
)

// wish is what the cluster file is to have: what the answers say, or what a cluster file has.
type wish struct {
	name   string    // of the clusters; "": that of the directory
	groups []group   // at least one
	rest   []setting // keys beside workers, in the order of the file
}

// group is a worker group; without a name it is the template's.
type group struct {
	name string
	keys []setting
}

// setting is a key with its value. The path of a group's key is below the group.
type setting struct {
	path  string
	value *yaml.Node
}

// assumedGPUs is the number of GPUs of a node where several nodes train together and nobody said how many they have.
const assumedGPUs = 8

// wishOf is the wish of answers. gpus is the number of GPUs of a node.
func wishOf(a *Advice, gpus int) wish {
	w := wish{groups: []group{{keys: sized(a.Nodes, gpus)}}}
	if a.BareMetal {
		w.takeWholeNodes(a.Launcher)
	}
	return w
}

// exclusive is the key that takes whole nodes.
const exclusive = "slurm.exclusive"

// takeWholeNodes asks Slurm for whole nodes, unless the wish says something about it. Other launchers have no key for it.
func (w *wish) takeWholeNodes(launcher string) {
	if launcher == slurm && !slices.ContainsFunc(w.rest, func(s setting) bool { return s.path == exclusive }) {
		w.rest = append([]setting{{exclusive, scalar("!!bool", "true")}}, w.rest...)
	}
}

func sized(nodes, gpus int) []setting {
	keys := []setting{{"replicas", number(nodes)}}
	if gpus > 0 {
		keys = append(keys, setting{"gpus", number(gpus)})
	}
	return keys
}

// everywhere are the keys of a group that mean the same on each launcher.
var everywhere = []string{"replicas", "minReplicas", "maxReplicas", "cpus", "memory", "gpus", "gpuType"}

// notOfGroup are keys that --set does not change in a group, and those that only a head has.
var notOfGroup = []string{"name", "on", "early"}

// wishFrom is the wish of a cluster file for a launcher: its groups and the keys of this launcher, as they are in the file. What the profile named default sets
// applies without being repeated. On its own launcher the file keeps its head and image, too.
func wishFrom(loaded *config.Loaded, launcher string) (wish, error) {
	w := wish{name: loaded.Spec.Name}
	file, err := tree(loaded.Spec)
	if err != nil {
		return w, err
	}
	same := launcher == loaded.Spec.Launcher
	sections := []string{launcher}
	if same {
		sections = []string{"image", "head", launcher}
	}
	given := given{loaded.Origins, loaded.File}
	for _, g := range workingGroups(loaded.Spec) {
		keys := given.settings(at(file, g.Path()), g.Path())
		keys = slices.DeleteFunc(keys, func(s setting) bool {
			return slices.Contains(notOfGroup, s.path) || !same && !slices.Contains(everywhere, s.path)
		})
		if !slices.ContainsFunc(keys, func(s setting) bool { return s.path == "replicas" }) {
			keys = append([]setting{{"replicas", number(g.Count)}}, keys...)
		}
		w.groups = append(w.groups, group{g.Name, keys})
		if g.GPUType != "" && !slices.Contains(sections, "gpuTypes") {
			sections = append(sections, "gpuTypes")
		}
	}
	for _, key := range sections {
		w.rest = append(w.rest, given.section(file, key)...)
	}
	if len(w.groups) == 1 && w.groups[0].name == spec.HeadGroupName { // a head alone: the template has a worker in its place
		w.rest = slices.DeleteFunc(w.rest, func(s setting) bool { return strings.HasPrefix(s.path, "head.") })
		w.groups[0].name = ""
	}
	return w, nil
}

// workingGroups are the nodes on which Ray runs tasks: without a head that has a node of its own beside workers.
func workingGroups(s *spec.ClusterSpec) []spec.NodeGroup {
	return slices.DeleteFunc(s.NodeGroups(), func(g spec.NodeGroup) bool { return !g.Tasks })
}

// resize gives the cluster another number of nodes. They make one group: of several the one whose nodes have the most GPUs.
func (w *wish) resize(nodes int) {
	most := w.largest()
	w.groups = w.groups[most : most+1]
	w.groups[0].drop("minReplicas", "maxReplicas")
	w.groups[0].set("replicas", nodes)
}

// setGPUs gives all nodes this number of GPUs.
func (w *wish) setGPUs(n int) {
	for i := range w.groups {
		w.groups[i].set("gpus", n)
	}
}

func (g *group) drop(paths ...string) {
	g.keys = slices.DeleteFunc(g.keys, func(s setting) bool { return slices.Contains(paths, s.path) })
}

func (g *group) set(path string, n int) {
	if i := slices.IndexFunc(g.keys, func(s setting) bool { return s.path == path }); i >= 0 {
		g.keys[i].value = number(n)
		return
	}
	g.keys = append(g.keys, setting{path, number(n)})
}

// number is a key of the group as a number, 0 if it is none.
func (g *group) number(path string) int {
	for _, s := range g.keys {
		if n, err := strconv.Atoi(s.value.Value); err == nil && s.path == path {
			return n
		}
	}
	return 0
}

// largest is the group whose nodes have the most GPUs, the first of equal ones.
func (w *wish) largest() (most int) {
	for i := range w.groups {
		if w.groups[i].number("gpus") > w.groups[most].number("gpus") {
			most = i
		}
	}
	return most
}

// nodes is the number of nodes of all groups.
func (w *wish) nodes() (n int) {
	for i := range w.groups {
		n += w.groups[i].number("replicas")
	}
	return n
}

// wholeNodes reports whether the wish is for whole nodes of Slurm, which then have their own number of CPUs.
func (w *wish) wholeNodes() bool {
	return slices.ContainsFunc(w.rest, func(s setting) bool { return s.path == exclusive && s.value.Value == "true" })
}

// text is the value as --set takes it.
func (s setting) text() (string, error) {
	if s.value.Kind == yaml.ScalarNode {
		return s.value.Value, nil
	}
	var v any
	if err := s.value.Decode(&v); err != nil {
		return "", err
	}
	b, err := json.Marshal(v)
	return string(b), err
}

func scalar(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

func number(n int) *yaml.Node { return scalar("!!int", strconv.Itoa(n)) }

// mapping is the keys as a map on one line.
func mapping(keys ...setting) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Style: yaml.FlowStyle}
	for _, k := range keys {
		m.Content = append(m.Content, scalar("!!str", k.path), k.value)
	}
	return m
}

// tree is a cluster file as YAML, in the order of the reference.
func tree(s *spec.ClusterSpec) (*yaml.Node, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("read the cluster file's own JSON: %w", err)
	}
	plain(&doc)
	return doc.Content[0], nil
}

// plain takes JSON's quotes away where YAML needs none.
func plain(n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		n.Style = 0
	}
	for _, child := range n.Content {
		plain(child)
	}
}

// at is the value at a path as origins have it: items of a list by name.
func at(n *yaml.Node, path string) *yaml.Node {
	for path != "" && n != nil {
		var key string
		key, path, _ = strings.Cut(path, ".")
		n = child(n, key)
	}
	return n
}

func child(n *yaml.Node, key string) *yaml.Node {
	if n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			if name := child(item, "name"); name != nil && name.Value == key {
				return item
			}
		}
		return nil
	}
	for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// given tells which keys the new cluster file has to have: those of the file and of flags. The user's profiles apply there, too.
type given struct {
	origins config.Origins
	file    string
}

func (g given) has(path string) bool {
	o, ok := g.origins[path]
	return ok && (o.Profile == "" || o.Source == g.file)
}

// settings are the given keys of a map at a path.
func (g given) settings(m *yaml.Node, path string) (out []setting) {
	for i := 0; m != nil && i < len(m.Content); i += 2 {
		key := m.Content[i].Value
		if value := g.prune(m.Content[i+1], path+"."+key); value != nil {
			out = append(out, setting{key, value})
		}
	}
	return out
}

// prune is a value without what is not given in it; nil if nothing is.
func (g given) prune(n *yaml.Node, path string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		if g.has(path) {
			return n
		}
		return nil
	}
	if kept := g.settings(n, path); len(kept) > 0 {
		return mapping(kept...)
	}
	return nil
}

// section are the given keys of a top-level key: of a map one each.
func (g given) section(file *yaml.Node, key string) (out []setting) {
	n := child(file, key)
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.MappingNode && g.has(key):
		return []setting{{key, n}}
	case n.Kind != yaml.MappingNode:
		return nil
	}
	for _, s := range g.settings(n, key) {
		if !slices.Contains(whole, key+"."+s.path) {
			out = append(out, setting{key + "." + s.path, s.value})
		}
	}
	return out
}

// whole are keys that hold another file's content, which advice is not about.
var whole = []string{"kuberay.rayCluster", "kuberay.configMaps"}
