package sizes

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/launcher/spec/environ"
	"github.com/rayctl/rayctl/templates/workloads"
)

// templateKey is the key of job.metadata by which a job keeps the rules of one of rayctl's templates.
const templateKey = "template"

// CheckTemplate is the first rule of the template in job.metadata that the cluster file and the job's options break together; nil if there is none. What is not known
// here is not compared: a rule with an option that is no literal number, a job without any option of the template, and a template that this rayctl does not have.
func CheckTemplate(s *spec.ClusterSpec) *workloads.ValueError {
	if !HasTemplate(&s.Job) { // no script is read
		return nil
	}
	return compare(s.Job.Metadata[templateKey], s, sources(&s.Job))
}

// CheckServed is CheckTemplate for a config of Serve with this name, that a cluster gets with the rules of a job's template.
func CheckServed(job *spec.Job, cluster *spec.ClusterSpec, name string, config map[string]any) *workloads.ValueError {
	return compare(job.Metadata[templateKey], cluster, []source{{name: name, config: config}})
}

// HasTemplate reports whether a job has a template's name.
func HasTemplate(job *spec.Job) bool { return job.Metadata[templateKey] != "" }

// compare is the first rule of a template that is broken by a cluster file and the options that a driver gets.
func compare(template string, s *spec.ClusterSpec, from []source) *workloads.ValueError {
	all, err := workloads.Builtin()
	if err != nil {
		return nil // a test reads them
	}
	t := workloads.Named(all, template)
	if t == nil {
		return nil
	}
	found := fromJob(t, from)
	if len(found) == 0 { // another command than the template's
		return nil
	}
	groups := groupsFor(t, s)
	if m := unequal(groups, from); m != nil {
		return m
	}
	found.addFile(t, groups, isFixed(s) || takesNodes(from))
	values := map[string]any{"launcher": s.Launcher}
	for parameter, f := range found {
		values[parameter] = f.value
	}
	wording := workloads.Wording{
		Name: func(parameter string) string { return found[parameter].key },
		Change: func(parameter string, to []int) string {
			f := found[parameter]
			return fmt.Sprintf("give %s=%s in %s", f.key, workloads.Or(to), f.in)
		},
		Other: "change the numbers, or leave job.metadata." + templateKey + " out, by which they are compared",
	}
	return t.Compare(values, wording)
}

// place is where a parameter of a template has its value now.
type place struct {
	value   int
	key, in string
}

// places are those of the parameters with a value.
type places map[string]place

// fromJob finds the template's options in the job's command and its files. The last one of a file counts, as in a shell.
func fromJob(t *workloads.Template, from []source) places {
	found := places{}
	for parameter, option := range t.Options() {
		for _, source := range from {
			texts := source.values(option)
			if len(texts) == 0 {
				continue
			}
			if n, err := strconv.Atoi(texts[len(texts)-1]); err == nil {
				found[parameter] = place{n, option, cmp.Or(source.name, "job.entrypoint")}
			}
			break // a value that is no number here is not known
		}
	}
	return found
}

// groupsFor are the groups whose required nodes are the template's: those with GPUs, as in RAYCTL_GPU_NODES, or all where the template has no gpus, or takes 0 and there are none.
func groupsFor(t *workloads.Template, s *spec.ClusterSpec) (groups []spec.NodeGroup) {
	var all []spec.NodeGroup
	for _, g := range s.NodeGroups() {
		if g.Min > 0 && g.GPUs > 0 {
			groups = append(groups, g)
		}
		if g.Min > 0 && (g.GPUs > 0 || g.Tasks) {
			all = append(all, g)
		}
	}
	gpus := slices.IndexFunc(t.Parameters, func(p workloads.Parameter) bool { return p.Name == "gpus" })
	if gpus < 0 || len(groups) == 0 && t.Parameters[gpus].TakesZero() {
		return all
	}
	return groups
}

// isFixed reports whether a cluster keeps its size. What a driver wants beyond the required nodes of another one may come when it asks for it.
func isFixed(s *spec.ClusterSpec) bool {
	return !slices.ContainsFunc(s.NodeGroups(), func(g spec.NodeGroup) bool { return g.Min != g.Max })
}

// takesNodes reports whether a driver takes the required nodes alone.
func takesNodes(from []source) bool {
	return slices.ContainsFunc(from, func(s source) bool { return strings.Contains(s.text, environ.GPUNodes) })
}

// unequal refuses groups with different numbers of GPUs where a script ends without RAYCTL_GPUS_PER_NODE, which is not set then.
func unequal(groups []spec.NodeGroup, from []source) *workloads.ValueError {
	for _, g := range groups {
		for _, source := range from {
			if g.GPUs != groups[0].GPUs && strings.Contains(source.text, "${"+environ.GPUsPerNode+":?") {
				return &workloads.ValueError{Msg: fmt.Sprintf("%s is %d and %s is %d, but %s wants %s, which is only set where all nodes with GPUs have the same number", groupKey(groups[0], "gpus"), groups[0].GPUs,
					groupKey(g, "gpus"), g.GPUs, cmp.Or(source.name, "job.entrypoint"), environ.GPUsPerNode), Hint: "make them equal, or give the driver its sizes there"}
			}
		}
	}
	return nil
}

// addFile adds the parameters without an option that the cluster file has: the number of nodes, if that is what the driver gets, and what each of them has, where all
// have the same.
func (found places) addFile(t *workloads.Template, groups []spec.NodeGroup, counted bool) {
	const file = "the cluster file"
	count, keys := 0, []string{}
	for _, g := range groups {
		count += g.Min
		keys = append(keys, groupKey(g, "replicas"))
	}
	add := func(parameter string, n int, key string) {
		if has(t, parameter) {
			found[parameter] = place{n, key, file}
		}
	}
	if len(groups) == 0 {
		add("nodes", 0, "the number of nodes with GPUs")
		return
	}
	key := strings.Join(keys, " + ")
	if len(keys) > 1 {
		key = "(" + key + ")"
	}
	if counted {
		add("nodes", count, key)
	}
	for parameter, of := range map[string]func(*spec.NodeResources) int{
		"gpus":   func(r *spec.NodeResources) int { return r.GPUs },
		"cpus":   func(r *spec.NodeResources) int { return int(r.CPUs) },
		"memory": func(r *spec.NodeResources) int { return int(r.Memory.Value() >> 30) },
	} {
		n := of(&groups[0].NodeResources)
		if (n > 0 || parameter == "gpus") && !slices.ContainsFunc(groups, func(g spec.NodeGroup) bool { return of(&g.NodeResources) != n }) {
			add(parameter, n, groupKey(groups[0], parameter))
		}
	}
}

// has reports whether a template takes a parameter from the cluster file.
func has(t *workloads.Template, parameter string) bool {
	return slices.ContainsFunc(t.Parameters, func(p workloads.Parameter) bool { return p.Name == parameter && p.Option == "" })
}

// groupKey is a key of a group, as other messages write it.
func groupKey(g spec.NodeGroup, key string) string {
	switch {
	case g.Name == spec.HeadGroupName:
		return "head." + key
	case key == "replicas" && g.Min != g.Max:
		key = "minReplicas"
	}
	return "workers." + g.Name + "." + key
}
