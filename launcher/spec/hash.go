package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Copy is a deep copy.
func Copy(s *ClusterSpec) *ClusterSpec {
	out := &ClusterSpec{}
	b, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(b, out)
	}
	if err != nil {
		panic(fmt.Sprintf("copy a cluster spec: %v", err)) // every type here has a JSON form, and tests go through all of them
	}
	return out
}

// Hash identifies what Launch creates: 64 hexadecimal digits, equal exactly for specs with no Diff. It covers everything that reaches
// the substrate, including the job, with defaults filled in. Not covered are the name (clusters are compared with those of the same name) and how
// this client reaches the substrate (hosts, transports, kubeconfig, context). Also not covered are the client's paths of working directory, modules
// and secrets, sections of other launchers, and GPU types that no group uses.
func Hash(s *ClusterSpec) string {
	b, err := json.Marshal(created(s))
	if err != nil {
		panic(fmt.Sprintf("hash a cluster spec: %v", err)) // see Copy
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Difference is one value that differs between two cluster files.
type Difference struct {
	// Path is as in Leaf.
	Path string `json:"path"`
	// From and To are the values as they are written; empty: not set.
	From string `json:"from"`
	To   string `json:"to"`
}

func (d Difference) String() string {
	return d.Path + ": " + cmp.Or(d.From, "not set") + " -> " + cmp.Or(d.To, "not set")
}

// Changeable reports whether a living cluster takes the new value.
func (d Difference) Changeable() bool {
	return slices.Contains(ChangeableKeys(), groupName.ReplaceAllString(d.Path, "workers[]."))
}

var groupName = regexp.MustCompile(`^workers\.[^.]*\.`)

// ChangeableKeys are the keys whose values may change while a cluster lives, such as workers[].replicas.
var ChangeableKeys = sync.OnceValue(func() []string { return changeableBelow(reflect.TypeFor[ClusterSpec](), "") })

func changeableBelow(t reflect.Type, path string) (keys []string) {
	for _, f := range fieldsOf(t) {
		p, inner := Join(path, f.name), deref(f.typ)
		if f.changeable {
			keys = append(keys, p)
		}
		if inner.Kind() == reflect.Slice {
			p, inner = p+"[]", deref(inner.Elem())
		}
		if IsSection(inner) {
			keys = append(keys, changeableBelow(inner, p)...)
		}
	}
	return keys
}

// Diff lists the changes from a to b in what Hash covers, one "PATH: A -> B" each, in the order of the fields.
func Diff(a, b *ClusterSpec) (out []string) {
	for _, d := range Differences(a, b) {
		out = append(out, d.String())
	}
	return out
}

// OwnAndYours joins what Diff returns of a cluster's own spec and the one that is asked for.
func OwnAndYours(diff []string) string { return "its own -> yours: " + strings.Join(diff, "; ") }

// Differences lists the changes from a to b in what Hash covers, in the order of the fields.
func Differences(a, b *ClusterSpec) []Difference {
	before, after := leafList(created(a)), leafList(created(b))
	old, now := leafMap(before), leafMap(after)
	var out []Difference
	for _, l := range before {
		if v, ok := now[l.Path]; !ok || v != l.Value {
			out = append(out, Difference{l.Path, l.Value, v})
		}
	}
	for _, l := range after {
		if _, ok := old[l.Path]; !ok {
			out = append(out, Difference{l.Path, "", l.Value})
		}
	}
	return out
}

func leafList(s *ClusterSpec) []Leaf {
	ls, err := Leaves(s)
	if err != nil {
		panic(fmt.Sprintf("compare cluster specs: %v", err)) // see Copy
	}
	return ls
}

func leafMap(ls []Leaf) map[string]string {
	m := make(map[string]string, len(ls))
	for _, l := range ls {
		m[l.Path] = l.Value
	}
	return m
}

// fromClient replaces a path of this client in what is hashed.
const fromClient = "(from the client)"

// created returns a copy with defaults and without what Launch does not create.
func created(s *ClusterSpec) *ClusterSpec {
	c := Copy(s)
	Default(c)
	c.Name = ""
	c.Job.CwdOptional = false // whether the file or the command's own directory names cwd makes no other cluster
	if c.Job.HasLocalWorkingDir() {
		c.Job.WorkingDir = fromClient
	}
	for i, m := range c.Job.PyModules {
		if !IsURI(m) {
			c.Job.PyModules[i] = fromClient
		}
	}
	for i := range c.Secrets {
		c.Secrets[i].File = ""
	}
	onlyLauncher(c)
	dropUnusedGPUTypes(c)
	return c
}

// onlyLauncher drops the other launchers' keys and the settings for reaching this one. Entries of gpuTypes stay whole.
func onlyLauncher(c *ClusterSpec) {
	c.Sections.keep(c.Launcher)
	for _, r := range resourcesOf(c) {
		r.Sections.keep(c.Launcher)
	}
	for i := range c.Mounts {
		c.Mounts[i].Source.Sections.keep(c.Launcher)
	}
	if scope := SubstrateOf(c.Launcher).HashScope; scope != nil {
		scope(c)
	}
}

func dropUnusedGPUTypes(c *ClusterSpec) {
	var used []string
	for _, r := range resourcesOf(c) {
		used = append(used, r.GPUType)
	}
	for name := range c.GPUTypes {
		if !slices.Contains(used, name) {
			delete(c.GPUTypes, name)
		}
	}
}

// resourcesOf returns pointers to the resources of the head and of each group.
func resourcesOf(s *ClusterSpec) []*NodeResources {
	out := []*NodeResources{&s.Head.NodeResources}
	for i := range s.Workers {
		out = append(out, &s.Workers[i].NodeResources)
	}
	return out
}
