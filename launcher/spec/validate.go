package spec

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	rayVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([a-zA-Z0-9.+-]*)$`)
)

// Validate checks everything that does not need the substrate and returns all problems as Errors, each with path and next
// step, or nil. It accepts a spec before or after Default; checks for one launcher run once s.Launcher is set.
func Validate(s *ClusterSpec) error {
	v := &Validator{}
	v.top(s)
	v.text(s)
	v.groups(s)
	v.head(s)
	v.environment(s)
	v.mounts(s)
	v.lifetime(s)
	v.job(s)
	for _, l := range registered {
		if l.Validate != nil {
			l.Validate(v, s)
		}
	}
	return v.errs.orNil()
}

// Validator collects the problems of a cluster file.
type Validator struct{ errs Errors }

// Fail adds a problem: the key, the next step, and the cause.
func (v *Validator) Fail(path, hint, format string, args ...any) {
	v.errs = append(v.errs, &Error{Path: path, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// FailIf is Fail under a condition.
func (v *Validator) FailIf(bad bool, path, hint, format string, args ...any) {
	if bad {
		v.Fail(path, hint, format, args...)
	}
}

// OneOf checks a field whose type has an enum tag.
func (v *Validator) OneOf(path, value string, allowed ...string) {
	if value == "" || slices.Contains(allowed, value) {
		return
	}
	hint := "use " + strings.Join(allowed, ", ")
	if near := Nearest(value, allowed); near != "" {
		hint = "did you mean " + near + "?"
	}
	v.Fail(path, hint, "%q is not possible here", value)
}

func (v *Validator) top(s *ClusterSpec) {
	v.OneOf("apiVersion", s.APIVersion, APIVersion)
	if meant := LauncherMeant(s.Launcher); meant != "" && meant != s.Launcher {
		v.Fail("launcher", "did you mean "+meant+"?", "%q is not possible here", s.Launcher)
	} else {
		v.OneOf("launcher", s.Launcher, Launchers()...)
	}
	sections := namesOf(func(l *Substrate) bool { return l.ChosenBySection && s.Sections.has(l.Name) })
	v.FailIf(s.Launcher == "" && len(sections) > 1, "launcher", "set launcher or give --launcher",
		"both %s are configured, so the launcher is not clear", strings.Join(sections, " and "))
	if s.Name != "" {
		v.name("name", s.Name)
	}
	v.FailIf(s.Ray.Version != "" && !rayVersion.MatchString(s.Ray.Version), "ray.version", "write it like 2.60.0",
		"%q is not a version of Ray", s.Ray.Version)
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		v.label(Printable(Join("labels", k)), k, s.Labels[k])
	}
}

// CheckName returns why name cannot be the name of a cluster or group; nil if it can.
func CheckName(name string) error {
	v := &Validator{}
	v.name("name", name)
	return v.errs.orNil()
}

func (v *Validator) name(path, name string) {
	const hint = "use at most 40 lower-case letters, digits and -, beginning and ending with a letter or digit"
	switch {
	case name == "":
		v.Fail(path, hint, "a name is missing")
	case len(name) > MaxNameLength:
		v.Fail(path, hint, "%q is longer than %d characters", name, MaxNameLength)
	case len(validation.IsDNS1123Label(name)) > 0:
		v.Fail(path, hint, "%q is not a DNS label", name)
	}
}

// text rejects control characters in values of one line: they would break scripts, headers and tables.
func (v *Validator) text(s *ClusterSpec) {
	ls, err := Leaves(s)
	if err != nil {
		v.Fail("", "", "%v", err)
		return
	}
	for _, l := range ls {
		multiline := l.Path == "setup" || l.Path == "job.entrypoint" || strings.HasPrefix(l.Path, "env.") || strings.Contains(l.Path, ".env.") ||
			strings.HasPrefix(l.Path, "job.metadata.") || strings.HasPrefix(l.Path, "job.runtimeEnv.") ||
			slices.ContainsFunc(registered, func(s *Substrate) bool { return s.FreeText != nil && s.FreeText(l.Path) })
		bad := strings.ContainsFunc(l.Value, func(r rune) bool {
			return r == 0 || !multiline && unicode.IsControl(r)
		})
		v.FailIf(bad, Printable(l.Path), "remove it", "the value %q has a control character", l.Value)
	}
}

// Printable is text for a message, quoted if it has control characters.
func Printable(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

func (v *Validator) groups(s *ClusterSpec) {
	seen := map[string]bool{}
	for i, g := range s.Workers {
		p := Join("workers", g.Name)
		if g.Name == "" {
			p = fmt.Sprintf("workers[%d]", i)
		}
		v.name(p+".name", g.Name)
		v.FailIf(g.Name == HeadGroupName, p, "choose another name, or configure the head under head:", "%q is the name of the head's own node", g.Name)
		v.FailIf(g.Name != "" && seen[g.Name], p, "give each group its own name", "there are two groups of this name")
		seen[g.Name] = true
		v.replicas(p, g)
		v.resources(s, p, &g.NodeResources)
	}
	negative := slices.ContainsFunc(s.NodeGroups(), func(g NodeGroup) bool { return g.Count < 0 }) // which replicas has refused
	v.FailIf(s.Launcher != "" && len(s.Workers) > 0 && s.TotalNodes() == 0 && !negative, "workers", "give a group at least one replica", "the cluster has no node")
}

func (v *Validator) replicas(p string, g WorkerGroup) {
	n := value(g.Replicas, value(g.MinReplicas, 1))
	least, most := value(g.MinReplicas, n), value(g.MaxReplicas, n)
	const whole = "use a whole number from 0"
	if n < 0 { // min and max follow replicas: one mistake, one error
		v.Fail(p+".replicas", whole, "%d is negative", n)
		return
	}
	v.FailIf(least < 0, p+".minReplicas", whole, "%d is negative", least)
	v.FailIf(most < 0, p+".maxReplicas", whole, "%d is negative", most)
	v.FailIf(least > n, p+".minReplicas", "lower it or raise replicas", "%d is more than replicas, %d", least, n)
	v.FailIf(most < n, p+".maxReplicas", "raise it or lower replicas", "%d is less than replicas, %d", most, n)
}

// tooSmall reports whether an amount of bytes lacks its unit: "16" is sixteen bytes.
func tooSmall(q resource.Quantity) bool { return q.Sign() > 0 && q.Cmp(resource.MustParse("1Mi")) < 0 }

// leastCPUs is what somebody can want for a node. 1m, a thousandth, is a mistake.
const leastCPUs = 0.1

func (v *Validator) resources(s *ClusterSpec, p string, r *NodeResources) {
	v.FailIf(r.CPUs < 0, p+".cpus", "use a number from 0", "%v is negative", float64(r.CPUs))
	v.FailIf(r.CPUs > 0 && r.CPUs < leastCPUs, p+".cpus", "write whole CPUs like 4, or 500m for a half", "%v of a CPU is too little for Ray", float64(r.CPUs))
	v.FailIf(r.Memory.Sign() < 0, p+".memory", "write it like 16Gi", "%s is negative", r.Memory.String())
	v.FailIf(r.Shm.Sign() < 0, p+".shm", "write it like 16Gi", "%s is negative", r.Shm.String())
	v.FailIf(tooSmall(r.Memory), p+".memory", "write it with a unit, like 16Gi", "%s bytes are too little memory for Ray", r.Memory.String())
	v.FailIf(tooSmall(r.Shm), p+".shm", "write it with a unit, like 16Gi", "%s bytes are too little shared memory for Ray", r.Shm.String())
	v.FailIf(r.GPUs < 0, p+".gpus", "use a whole number from 0", "%d is negative", r.GPUs)
	v.FailIf(r.GPUType != "" && r.GPUs == 0, p+".gpuType", "set gpus or remove gpuType", "a GPU type is given for nodes without GPUs")
	v.FailIf(!r.Memory.IsZero() && r.Memory.Cmp(r.Shm) < 0, p+".shm", "shared memory counts as memory: raise memory", "%s is more than memory, %s",
		r.Shm.String(), r.Memory.String())
	v.FailIf(r.ObjectStoreMemory.Sign() < 0 || !r.ObjectStoreMemory.IsZero() && r.ObjectStoreMemory.Cmp(leastStore) < 0, p+".objectStoreMemory", "write it with a unit, like 16Gi",
		"%s is less than the %s that Ray needs for an object store", r.ObjectStoreMemory.String(), leastStore.String())
	v.FailIf(!r.Memory.IsZero() && r.Memory.Cmp(r.ObjectStoreMemory) <= 0, p+".objectStoreMemory", "lower it or raise memory",
		"%s leaves nothing of memory, %s, to Ray's processes", r.ObjectStoreMemory.String(), r.Memory.String())
	v.FailIf(!r.Shm.IsZero() && r.Shm.Cmp(r.ObjectStoreMemory) < 0, p+".objectStoreMemory", "the object store is in /dev/shm: lower it or raise shm",
		"%s is more than shm, %s", r.ObjectStoreMemory.String(), r.Shm.String())
	if r.ObjectSpillingDirectory != "" {
		v.Absolute(p+".objectSpillingDirectory", r.ObjectSpillingDirectory)
	}
	old := s.HasOlderRay(nodeOptions)
	v.FailIf(old && r.ObjectSpillingDirectory != "", p+".objectSpillingDirectory", "set "+strings.Join(append(sectionKeys("tmpDir"), "a later ray.version"), " or "), "Ray %s cannot be given it", s.Ray.Version)
	v.FailIf(old && len(r.Labels) > 0, p+".labels", "use resources, or set a later ray.version", "Ray %s has no labels of nodes", s.Ray.Version)
	v.nodeLabels(p+".labels", r.Labels)
	v.customResources(p+".resources", "use cpus, gpus, memory, objectStoreMemory or shm", r.Resources)
	if validate := SubstrateOf(s.Launcher).ValidateNode; validate != nil {
		validate(v, s, p, r)
	}
}

// customResources checks amounts of Ray's custom resources; instead is the hint for Ray's own ones.
func (v *Validator) customResources(p, instead string, amounts map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		rp := Join(p, name)
		v.FailIf(strings.TrimSpace(name) == "", rp, "give it a name", "a custom resource has no name")
		v.FailIf(slices.Contains([]string{"cpu", "gpu", "memory", "object_store_memory"}, strings.ToLower(name)), rp,
			instead, "%q is not a custom resource of Ray", name)
		v.FailIf(amounts[name] < 0, rp, "use a number from 0", "%v is negative", amounts[name])
	}
}

func (v *Validator) head(s *ClusterSpec) {
	if s.Head.Early {
		v.earlyHead(s)
	}
	if s.Head.On == "" || s.Head.On == HeadGroupName {
		v.resources(s, "head", &s.Head.NodeResources)
		return
	}
	g := s.Group(s.Head.On)
	if g == nil {
		names := make([]string, len(s.Workers))
		for i, w := range s.Workers {
			names[i] = w.Name
		}
		hint := "name one of the groups: " + strings.Join(names, ", ") + "; or write head, for a node of its own"
		if len(names) == 0 {
			hint = "remove head.on: without workers the head is the whole cluster"
		}
		v.Fail("head.on", hint, "there is no worker group %q", s.Head.On)
		return
	}
	v.FailIf(value(g.MinReplicas, value(g.Replicas, 1)) == 0, Join("workers", g.Name), "write `head: {on: head}`, which gives the head a node of its own, or give the group minReplicas of at least 1",
		"the head is on the first worker of group %q, which may have no workers", g.Name)
	v.FailIf(!s.Head.IsEmpty(), "head.on", "remove head.on, or the keys beside it",
		"the head is on group %q and has that worker's resources, so it can have none of its own", s.Head.On)
}

func (v *Validator) earlyHead(s *ClusterSpec) {
	const p = "head.early"
	on := SubstrateOf(s.Launcher)
	v.FailIf(s.Launcher != "" && !on.EarlyHead, p, "leave it out", "the %s launcher starts the head together with the workers", s.Launcher)
	own := s.Head.On == "" || s.Head.On == HeadGroupName
	v.FailIf(!own, p, "remove head.on: an early head has a node of its own", "the head is on group %q and starts with it", s.Head.On)
	v.FailIf(own && s.GangNodes() < 2, p, "leave it out, or give a group replicas", "no worker is required, so the head does not wait for any")
}

// Absolute checks a path that may not be relative.
func (v *Validator) Absolute(p, dir string) {
	v.FailIf(!strings.HasPrefix(dir, "/"), p, "write it from /", "%q is not an absolute path", dir)
}
