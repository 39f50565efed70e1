package spec

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

var (
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,255}$`)
	rayVersion = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+([a-zA-Z0-9.+-]*)$`)
)

// Validate checks everything that does not need the substrate and returns all problems as Errors, each with path and next
// step, or nil. It accepts a spec before or after Default; checks for one launcher run once s.Launcher is set.
func Validate(s *ClusterSpec) error {
	v := &validator{}
	v.top(s)
	v.text(s)
	v.groups(s)
	v.head(s)
	v.environment(s)
	v.mounts(s)
	v.lifetime(s)
	v.job(s)
	v.slurm(s)
	v.kubeRay(s)
	v.local(s)
	return v.errs.orNil()
}

type validator struct{ errs Errors }

func (v *validator) fail(path, hint, format string, args ...any) {
	v.errs = append(v.errs, &Error{Path: path, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

// failIf is fail under a condition.
func (v *validator) failIf(bad bool, path, hint, format string, args ...any) {
	if bad {
		v.fail(path, hint, format, args...)
	}
}

// oneOf checks a field whose type has an enum tag.
func (v *validator) oneOf(path, value string, allowed ...string) {
	if value == "" || slices.Contains(allowed, value) {
		return
	}
	hint := "use " + strings.Join(allowed, ", ")
	if near := Nearest(value, allowed); near != "" {
		hint = "did you mean " + near + "?"
	}
	v.fail(path, hint, "%q is not possible here", value)
}

func (v *validator) top(s *ClusterSpec) {
	v.oneOf("apiVersion", s.APIVersion, APIVersion)
	v.oneOf("launcher", s.Launcher, LauncherSlurm, LauncherKubeRay, LauncherLocal)
	v.failIf(s.Launcher == "" && s.Slurm != nil && s.KubeRay != nil, "launcher", "set launcher or give --launcher",
		"both slurm and kuberay are configured, so the launcher is not clear")
	if s.Name != "" {
		v.name("name", s.Name)
	}
	v.failIf(s.Ray.Version != "" && !rayVersion.MatchString(s.Ray.Version), "ray.version", "write it like 2.60.0",
		"%q is not a version of Ray", s.Ray.Version)
	for _, k := range slices.Sorted(maps.Keys(s.Labels)) {
		p := printable(join("labels", k))
		v.failIf(len(validation.IsQualifiedName(k)) > 0, p, "use at most 63 letters, digits, -, _ and ., optionally after a DNS name and /",
			"%q is not a label's key", k)
		v.failIf(len(validation.IsValidLabelValue(s.Labels[k])) > 0, p, "use at most 63 letters, digits, -, _ and .", "%q is not a label's value", s.Labels[k])
	}
}

// CheckName returns why name cannot be the name of a cluster or group; nil if it can.
func CheckName(name string) error {
	v := &validator{}
	v.name("name", name)
	return v.errs.orNil()
}

func (v *validator) name(path, name string) {
	const hint = "use at most 40 lower-case letters, digits and -, beginning and ending with a letter or digit"
	switch {
	case name == "":
		v.fail(path, hint, "a name is missing")
	case len(name) > MaxNameLength:
		v.fail(path, hint, "%q is longer than %d characters", name, MaxNameLength)
	case len(validation.IsDNS1123Label(name)) > 0:
		v.fail(path, hint, "%q is not a DNS label", name)
	}
}

// text rejects control characters in values of one line: they would break scripts, headers and tables.
func (v *validator) text(s *ClusterSpec) {
	ls, err := Leaves(s)
	if err != nil {
		v.fail("", "", "%v", err)
		return
	}
	for _, l := range ls {
		multiline := l.Path == "setup" || l.Path == "job.entrypoint" || strings.HasPrefix(l.Path, "env.") ||
			strings.HasPrefix(l.Path, "job.env.") || strings.HasPrefix(l.Path, "job.metadata.") ||
			strings.Contains(l.Path, "patch.") || strings.HasPrefix(l.Path, "kuberay.rayCluster.") || strings.HasPrefix(l.Path, "kuberay.configMaps.") || strings.HasPrefix(l.Path, "job.runtimeEnv.")
		bad := strings.ContainsFunc(l.Value, func(r rune) bool {
			return r == 0 || !multiline && unicode.IsControl(r)
		})
		v.failIf(bad, printable(l.Path), "remove it", "the value %q has a control character", l.Value)
	}
}

func printable(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Sprintf("%q", s)
	}
	return s
}

func (v *validator) groups(s *ClusterSpec) {
	seen := map[string]bool{}
	for i, g := range s.Workers {
		p := join("workers", g.Name)
		if g.Name == "" {
			p = fmt.Sprintf("workers[%d]", i)
		}
		v.name(p+".name", g.Name)
		v.failIf(g.Name == HeadGroupName, p, "choose another name, or configure the head under head:", "%q is the name of the head's own node", g.Name)
		v.failIf(g.Name != "" && seen[g.Name], p, "give each group its own name", "there are two groups of this name")
		seen[g.Name] = true
		v.replicas(p, g)
		v.resources(s, p, &g.NodeResources)
	}
	v.failIf(s.Launcher != "" && len(s.Workers) > 0 && s.TotalNodes() == 0, "workers", "give a group at least one replica", "the cluster has no node")
}

func (v *validator) replicas(p string, g WorkerGroup) {
	n := value(g.Replicas, value(g.MinReplicas, 1))
	least, most := value(g.MinReplicas, n), value(g.MaxReplicas, n)
	const whole = "use a whole number from 0"
	if n < 0 { // min and max follow replicas: one mistake, one error
		v.fail(p+".replicas", whole, "%d is negative", n)
		return
	}
	v.failIf(least < 0, p+".minReplicas", whole, "%d is negative", least)
	v.failIf(most < 0, p+".maxReplicas", whole, "%d is negative", most)
	v.failIf(least > n, p+".minReplicas", "lower it or raise replicas", "%d is more than replicas, %d", least, n)
	v.failIf(most < n, p+".maxReplicas", "raise it or lower replicas", "%d is less than replicas, %d", most, n)
}

// tooSmall reports whether an amount of bytes lacks its unit: "16" is sixteen bytes.
func tooSmall(q resource.Quantity) bool { return q.Sign() > 0 && q.Cmp(resource.MustParse("1Mi")) < 0 }

func (v *validator) resources(s *ClusterSpec, p string, r *NodeResources) {
	v.failIf(r.CPUs < 0, p+".cpus", "use a number from 0", "%v is negative", float64(r.CPUs))
	v.failIf(r.Memory.Sign() < 0, p+".memory", "write it like 16Gi", "%s is negative", r.Memory.String())
	v.failIf(r.Shm.Sign() < 0, p+".shm", "write it like 16Gi", "%s is negative", r.Shm.String())
	v.failIf(tooSmall(r.Memory), p+".memory", "write it with a unit, like 16Gi", "%s bytes are no memory to run Ray in", r.Memory.String())
	v.failIf(tooSmall(r.Shm), p+".shm", "write it with a unit, like 16Gi", "%s bytes are no shared memory to run Ray with", r.Shm.String())
	v.failIf(r.GPUs < 0, p+".gpus", "use a whole number from 0", "%d is negative", r.GPUs)
	v.failIf(r.GPUType != "" && r.GPUs == 0, p+".gpuType", "set gpus or remove gpuType", "a GPU type is given for nodes without GPUs")
	v.failIf(!r.Memory.IsZero() && r.Memory.Cmp(r.Shm) < 0, p+".shm", "shared memory counts as memory: raise memory", "%s is more than memory, %s",
		r.Shm.String(), r.Memory.String())
	v.customResources(p+".resources", "use cpus, gpus, memory or shm", r.Resources)
	if r.GPUType != "" && s.Launcher == LauncherKubeRay {
		_, known := s.GPUTypes[r.GPUType]
		v.failIf(!known, p+".gpuType", "add gpuTypes."+r.GPUType+" with its nodeSelector, best in a profile",
			"gpuTypes does not say which nodes have %q", r.GPUType)
	}
}

// customResources checks amounts of Ray's custom resources; instead is the hint for Ray's own ones.
func (v *validator) customResources(p, instead string, amounts map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(amounts)) {
		rp := join(p, name)
		v.failIf(strings.TrimSpace(name) == "", rp, "give it a name", "a custom resource has no name")
		v.failIf(slices.Contains([]string{"cpu", "gpu", "memory", "object_store_memory"}, strings.ToLower(name)), rp,
			instead, "%q is not a custom resource of Ray", name)
		v.failIf(amounts[name] < 0, rp, "use a number from 0", "%v is negative", amounts[name])
	}
}

func (v *validator) head(s *ClusterSpec) {
	if s.Head.On == "" {
		v.resources(s, "head", &s.Head.NodeResources)
		return
	}
	g := s.Group(s.Head.On)
	if g == nil {
		names := make([]string, len(s.Workers))
		for i, w := range s.Workers {
			names[i] = w.Name
		}
		hint := "name one of the groups: " + strings.Join(names, ", ")
		if len(names) == 0 {
			hint = "remove head.on: without workers the head is the whole cluster"
		}
		v.fail("head.on", hint, "there is no worker group %q", s.Head.On)
		return
	}
	v.failIf(value(g.MinReplicas, value(g.Replicas, 1)) == 0, "head.on", "give the group minReplicas of at least 1, or the head a node of its own",
		"the group %q may have no worker, and the head is on its first", g.Name)
	v.failIf(!s.Head.isZero(), "head.on", "remove head.on, or what stands beside it",
		"the head is on group %q and has that worker's resources, so it can have none of its own", s.Head.On)
}

func (v *validator) environment(s *ClusterSpec) {
	for _, m := range []struct {
		path string
		env  map[string]string
	}{{"env", s.Env}, {"job.env", s.Job.Env}} {
		for _, name := range slices.Sorted(maps.Keys(m.env)) {
			if msg, hint := envProblem(name); msg != "" {
				v.fail(printable(join(m.path, name)), hint, "%q %s", name, msg)
			}
		}
	}
	seen := map[string]bool{}
	for i, sec := range s.Secrets {
		p := fmt.Sprintf("secrets[%d]", i)
		if msg, hint := envProblem(sec.Name); msg != "" {
			v.fail(p, hint, "%q %s", sec.Name, msg)
		}
		_, inEnv := s.Env[sec.Name]
		_, inJob := s.Job.Env[sec.Name]
		v.failIf(inEnv || inJob, p, "keep it in secrets only", "%s is a secret and also in env", sec.Name)
		v.failIf(seen[sec.Name], p, "keep one", "the secret %s is here twice", sec.Name)
		seen[sec.Name] = true
		v.failIf(sec.File != "" && sec.SecretKeyRef != nil, p, "keep one of them", "%s has both file and secretKeyRef", sec.Name)
		v.failIf(sec.SecretKeyRef != nil && s.Launcher != "" && s.Launcher != LauncherKubeRay, p, "use file, or the client's environment",
			"secretKeyRef is only possible on KubeRay, and the launcher is %s", s.Launcher)
	}
}

func (v *validator) mounts(s *ClusterSpec) {
	seen := map[string]bool{}
	for i, m := range s.Mounts {
		p := fmt.Sprintf("mounts[%d]", i)
		v.absolute(p+".mountPath", m.MountPath)
		v.failIf(m.MountPath == "/", p+".mountPath", "mount below it", "the root directory cannot be mounted over")
		clean := path.Clean(m.MountPath)
		v.failIf(seen[clean], p+".mountPath", "keep one", "%s is mounted twice", clean)
		seen[clean] = true
		if m.Source.Slurm != "" {
			v.absolute(p+".source.slurm", m.Source.Slurm)
		}
		missing := map[string]bool{
			LauncherSlurm: m.Source.Slurm == "", LauncherKubeRay: m.Source.KubeRay == nil, LauncherLocal: m.Source.Local == "",
		}[s.Launcher]
		v.failIf(missing, p+".source", "add source."+s.Launcher, "it has no source for the %s launcher", s.Launcher)
	}
}

func (v *validator) absolute(p, dir string) {
	v.failIf(!strings.HasPrefix(dir, "/"), p, "write it from /", "%q is not an absolute path", dir)
}
