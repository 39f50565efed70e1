package spec

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/rayctl/rayctl/launcher/spec/environ"
	"github.com/rayctl/rayctl/launcher/spec/units"
)

func (v *Validator) lifetime(s *ClusterSpec) {
	l := s.Lifetime
	limits := []struct {
		name  string
		limit units.Limit
	}{{"queue", l.Queue}, {"max", l.Max}, {"idle", l.Idle}}
	for _, x := range limits {
		v.FailIf(x.limit < units.NoLimit, "lifetime."+x.name, "use a positive duration, or unlimited", "it is negative")
		total, bounded := l.Total.Bound()
		if d, ok := x.limit.Bound(); ok && bounded && d > total {
			v.Fail("lifetime."+x.name, "lower it or raise total", "%s is longer than lifetime.total, %s", x.limit, l.Total)
		}
	}
	v.FailIf(l.Total < units.NoLimit, "lifetime.total", "use a positive duration, or unlimited", "it is negative")
	v.FailIf(l.Start < 0, "lifetime.start", "use a positive duration, for example 1h", "nodes that never start would stay allocated")
	v.FailIf(s.Scaling.Idle < units.NoLimit, "scaling.idle", "use a positive duration, or unlimited", "it is negative")
	v.FailIf(s.Scaling.UpscalingSpeed < 0, "scaling.upscalingSpeed", "use a number above 0", "%v is negative", s.Scaling.UpscalingSpeed)
	v.FailIf(s.Scaling.MaxAllocations < 0, "scaling.maxAllocations", "use a number from 1, or leave it out", "%d is negative", s.Scaling.MaxAllocations)
	v.FailIf(l.Keep != nil && *l.Keep < 0, "lifetime.keep", "use 0 to keep nothing", "it is negative")
	v.keepOutput(&l)
	grace := time.Duration(value(s.Job.Grace, 0))
	v.FailIf(grace < 0, "job.grace", "use a duration from 0", "it is negative")
	if most, ok := l.Max.Bound(); ok && grace >= most {
		v.Fail("job.grace", "lower it or raise lifetime.max", "%s is not shorter than lifetime.max, %s", units.Duration(grace), l.Max)
	}
}

// leastKept is less than anybody wants to keep of an output: "8" is eight bytes.
var leastKept = resource.MustParse("1Ki")

func (v *Validator) keepOutput(l *Lifetime) {
	one, all := value(l.KeepOutput, Quantity{}), value(l.KeepOutputTotal, Quantity{})
	v.FailIf(one.Sign() > 0 && one.Cmp(leastKept) < 0, "lifetime.keepOutput", "write it with a unit, like 8Mi, or 0 to keep no output", "%s bytes are less than a line", one.String())
	v.FailIf(all.Sign() > 0 && all.Cmp(leastKept) < 0, "lifetime.keepOutputTotal", "write it with a unit, like 64Mi, or 0 to keep no output", "%s bytes are less than a line", all.String())
	v.FailIf(all.Sign() > 0 && all.Cmp(one) < 0, "lifetime.keepOutputTotal", "raise it or lower keepOutput", "%s for all jobs is less than lifetime.keepOutput for each, %s", all.String(), one.String())
}

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

func (v *Validator) job(s *ClusterSpec) {
	j := &s.Job
	v.FailIf(j.Entrypoint != "" && strings.TrimSpace(j.Entrypoint) == "", "job.entrypoint", "give a command, or remove the key", "the command is only white space")
	v.FailIf(j.Prepare != "" && strings.TrimSpace(j.Prepare) == "", "job.prepare", "give a command, or remove the key", "the command is only white space")
	v.OneOf("job.start", j.Start, "gang", StartWithHead)
	v.FailIf(j.Start == StartWithHead && !s.Head.Early, "job.start", "set head.early: true, or leave it out", "without an early head the driver starts only when all nodes are there")
	v.FailIf(j.WorkingDir != "" && j.Cwd != "", "job.cwd", "keep workingDir to upload a directory, cwd for one that the nodes have", "there are both workingDir and cwd")
	if j.Cwd != "" {
		v.Absolute("job.cwd", j.Cwd)
	}
	v.launch(s)
	v.outputDir(j.OutputDir)
	if j.ShareDir != "" {
		v.Absolute("job.shareDir", j.ShareDir)
	}
	v.FailIf(!j.Pip.IsZero() && !j.Uv.IsZero(), "job.uv", "keep one of them", "there are both pip and uv")
	v.requirements("job.pip", j.Pip)
	v.requirements("job.uv", j.Uv)
	v.runtimeEnv(j)
	for _, k := range slices.Sorted(maps.Keys(j.Metadata)) {
		v.FailIf(strings.HasPrefix(strings.ToLower(k), "rayctl"), Printable(Join("job.metadata", k)), "choose another key", "keys that begin with rayctl are reserved")
	}
	v.FailIf(j.EntrypointCPUs < 0, "job.entrypointCpus", "use a number from 0", "%v is negative", float64(j.EntrypointCPUs))
	v.FailIf(j.EntrypointGPUs < 0, "job.entrypointGpus", "use a number from 0", "%v is negative", j.EntrypointGPUs)
	v.customResources("job.entrypointResources", "use entrypointCpus, entrypointGpus or entrypointMemory", j.EntrypointResources)
	for _, c := range []struct {
		name string
		n    units.Count
	}{{"driver", j.Restarts.Driver}, {"nodeFailure", j.Restarts.NodeFailure}, {"preempted", value(j.Restarts.Preempted, 0)}, {"timeLimit", j.Restarts.TimeLimit}} {
		v.FailIf(c.n < units.Unlimited, "job.restarts."+c.name, "use a whole number from 0, or unlimited", "%d is negative", int(c.n))
	}
}

func (v *Validator) outputDir(dir string) {
	const p = "job.outputDir"
	if dir == "" {
		return
	}
	switch {
	case strings.HasPrefix(dir, "~"):
		v.Fail(p, "write it from /", "%q begins with ~, which is not the same on all nodes", dir)
	case !IsURI(dir):
		v.Absolute(p, dir)
	}
	for _, x := range placeholder.FindAllString(dir, -1) {
		v.FailIf(x != "{name}", p, "use {name}, the run's name", "%s is not a known placeholder", x)
	}
}

// requirements rejects lines that a list cannot have: pip reads the list on the nodes, which lack files relative to the cluster file.
func (v *Validator) requirements(p string, r Requirements) {
	for i, line := range r.Packages {
		if r.File != "" { // the first of the list
			i++
		}
		option, file := IncludedFile(line)
		v.FailIf(file != "" && !strings.HasPrefix(strings.TrimLeft(option, "-"), "c"), fmt.Sprintf("%s[%d]", p, i), "a requirements file is given instead of the list, as in "+p+": requirements.txt, or by the absolute path that it has on the nodes",
			"%s %s names a file that the nodes do not have", option, file)
	}
}

// runtimeEnvFields are the keys of Ray's runtime_env that have a field in Job.
var runtimeEnvFields = map[string]string{
	"working_dir": "job.workingDir", "env_vars": "job.env", "py_modules": "job.pyModules", "excludes": "job.excludes", "pip": "job.pip", "uv": "job.uv",
}

// rayRuntimeEnv are the keys of a runtime_env in Ray 2.9 to 2.60 (RuntimeEnv.known_fields and the arguments of its constructor) that have no field in Job.
var rayRuntimeEnv = []string{"py_executable", "java_jars", "conda", "container", "image_uri", "config", "worker_process_setup_hook", "nsight", "rocprof_sys", "mpi"}

// UnknownRuntimeEnv are sentences about keys of job.runtimeEnv that Ray does not know. Ray hands them to plugins, and ignores them where there is none. at is
// the place that sets a key.
func UnknownRuntimeEnv(j *Job, at func(path string) string) (notes []string) {
	known := slices.Concat(rayRuntimeEnv, slices.Sorted(maps.Keys(runtimeEnvFields)))
	for _, k := range slices.Sorted(maps.Keys(j.RuntimeEnv)) {
		if slices.Contains(known, k) || strings.HasPrefix(k, "_") { // Ray's own
			continue
		}
		near := Nearest(k, known)
		if near == "" {
			for name, field := range runtimeEnvFields {
				if field == "job."+meaningOf(k) {
					near = name
				}
			}
		}
		path, hint := Join("job.runtimeEnv", k), "Ray's keys are "+strings.Join(known, ", ")
		switch field := runtimeEnvFields[near]; {
		case field != "":
			hint = fmt.Sprintf("did you mean %s (%s)?", near, field)
		case near != "":
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		notes = append(notes, fmt.Sprintf("%s (%s) is no key of Ray's runtime_env, and has no effect unless the nodes' Ray has a plugin for it: %s", Printable(path), at(path), hint))
	}
	return notes
}

// usesOf explains how to use a field of Job in place of runtimeEnv's key, if its name is not enough.
var usesOf = map[string]string{
	"job.pip": ", which takes a list or the name of a requirements file", "job.uv": ", which takes a list or the name of a requirements file",
}

func (v *Validator) runtimeEnv(j *Job) {
	for _, k := range slices.Sorted(maps.Keys(j.RuntimeEnv)) {
		field := runtimeEnvFields[k]
		// Ray's own forms of pip and uv express more than a list: {packages: [...], pip_check: false}. A text is a requirements file.
		_, list := j.RuntimeEnv[k].([]any)
		rich := (k == "pip" || k == "uv") && !list && j.Pip.IsZero() && j.Uv.IsZero()
		v.FailIf(field != "" && !rich, Join("job.runtimeEnv", k), "use "+field+usesOf[field], "%s has a field of its own", k)
	}
	if uv, ok := j.RuntimeEnv["uv"].(map[string]any); ok { // a list, unlike pip's, see parse_and_validate_uv of Ray 2.60
		_, list := uv["packages"].([]any)
		v.FailIf(!list, "job.runtimeEnv.uv.packages", "use job.uv"+usesOf["job.uv"], "Ray accepts only a list there")
	}
}

// RequireEntrypoint is the error of a file without a job, for a command that needs one; verb is the command that takes it on its line.
func RequireEntrypoint(s *ClusterSpec, verb string) error {
	if strings.TrimSpace(s.Job.Entrypoint) != "" {
		return nil
	}
	return &Error{Path: "job.entrypoint", Msg: "there is no command to run", Hint: "give it after --, as in `rayctl " + verb + " -- python train.py`, or set job.entrypoint"}
}

func (v *Validator) environment(s *ClusterSpec) {
	all := []struct {
		path string
		env  map[string]string
	}{{"env", s.Env}, {"job.env", s.Job.Env}, {"head.env", s.Head.Env}}
	for _, g := range s.Workers {
		all = append(all, struct {
			path string
			env  map[string]string
		}{Join(Join("workers", g.Name), "env"), g.Env})
	}
	for _, m := range all {
		for _, name := range slices.Sorted(maps.Keys(m.env)) {
			if msg, hint := environ.Problem(name); msg != "" {
				v.Fail(Printable(Join(m.path, name)), hint, "%q %s", name, msg)
			}
		}
	}
	var titles []string
	for _, l := range registered {
		if l.SecretKeys {
			titles = append(titles, l.Title)
		}
	}
	seen := map[string]bool{}
	for i, sec := range s.Secrets {
		p := fmt.Sprintf("secrets[%d]", i)
		if msg, hint := environ.Problem(sec.Name); msg != "" {
			v.Fail(p, hint, "%q %s", sec.Name, msg)
		}
		for _, m := range all {
			if _, also := m.env[sec.Name]; also {
				v.Fail(p, "keep it in secrets only", "%s is a secret and also in %s", sec.Name, m.path)
			}
		}
		v.FailIf(seen[sec.Name], p, "keep one", "the secret %s is given twice", sec.Name)
		seen[sec.Name] = true
		v.FailIf(sec.File != "" && sec.SecretKeyRef != nil, p, "keep one of them", "%s has both file and secretKeyRef", sec.Name)
		v.FailIf(sec.SecretKeyRef != nil && s.Launcher != "" && !SubstrateOf(s.Launcher).SecretKeys, p, "use file, or the client's environment",
			"secretKeyRef is only possible on %s, and the launcher is %s", strings.Join(titles, " and "), s.Launcher)
	}
}

func (v *Validator) mounts(s *ClusterSpec) {
	seen := map[string]bool{}
	for i, m := range s.Mounts {
		p := fmt.Sprintf("mounts[%d]", i)
		v.Absolute(p+".mountPath", m.MountPath)
		v.FailIf(m.MountPath == "/", p+".mountPath", "choose a directory below /", "the root directory cannot be mounted over")
		clean := path.Clean(m.MountPath)
		v.FailIf(seen[clean], p+".mountPath", "keep one", "%s is mounted twice", clean)
		seen[clean] = true
		for _, l := range registered {
			if l.ValidateMount != nil {
				l.ValidateMount(v, p, &m)
			}
		}
		of := SubstrateOf(s.Launcher)
		missing, hint := of.Mount != nil && !m.Source.Sections.has(s.Launcher), "add source."+s.Launcher
		if of.MountExample != "" {
			hint += fmt.Sprintf(", as in {mountPath: %s, source: {%s: %s}}", m.MountPath, s.Launcher, of.MountExample)
		}
		v.FailIf(missing, p+".source", hint, "it has no source for the %s launcher", s.Launcher)
	}
}

// launch checks job.launch as far as the file alone can be wrong; what nodes have is checked with a launcher's plan (launcher/orders).
func (v *Validator) launch(s *ClusterSpec) {
	const p = "job.launch.groups"
	l, seen := &s.Job.Launch, map[string]bool{}
	var names []string
	for _, g := range s.NodeGroups() {
		names = append(names, g.Name)
	}
	for _, name := range l.Groups {
		i := slices.Index(names, name)
		v.FailIf(seen[name], p, "keep one", "the group %s is given twice", name)
		seen[name] = true
		if i < 0 {
			hint := "the groups are " + strings.Join(names, ", ")
			if near := Nearest(name, names); near != "" {
				hint = fmt.Sprintf("did you mean %q?", near)
			}
			v.Fail(p, hint, "there is no group %q", name)
			continue
		}
		v.FailIf(s.NodeGroups()[i].Min == 0, p, "set its minReplicas: only required nodes run the command", "the group %s has no required node", name)
	}
	v.FailIf(l.On() && s.Job.Start == StartWithHead, "job.start", "leave it out", "a command that runs on every node (job.launch) begins when all required nodes are there")
	if !l.On() || len(l.Groups) > 0 || len(s.RankGroups()) > 0 {
		return
	}
	what, hint := "", "set minReplicas of a group: only required nodes run the command"
	if l.PerNode == units.EachGPU {
		what = " and has a GPU"
	}
	if l.PerNode == units.EachGPU && !slices.ContainsFunc(s.NodeGroups(), func(g NodeGroup) bool { return g.GPUs > 0 }) {
		hint = "give the workers GPUs (--workers N --gpus-per-worker N, or gpus of a group in the file), or the number of processes, as in --each-node=2"
	}
	v.Fail("job.launch.perNode", hint, "the cluster has no required node that runs work%s", what)
}

// On reports whether the command runs on every node.
func (l *Launch) On() bool { return l.PerNode != 0 }

// RankGroups are the groups whose required nodes run the command of job.launch, the head's first.
func (s *ClusterSpec) RankGroups() (groups []NodeGroup) {
	l := &s.Job.Launch
	for _, g := range s.NodeGroups() {
		named, fits := slices.Contains(l.Groups, g.Name), g.Tasks && (l.PerNode != units.EachGPU || g.GPUs > 0)
		if l.On() && g.Min > 0 && (named || len(l.Groups) == 0 && fits) {
			groups = append(groups, g)
		}
	}
	return groups
}
