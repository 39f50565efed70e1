package manifest

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"

	"github.com/rayctl/rayctl/launcher/spec"
)

// readJob turns a RayJob into its cluster and a job. The fields for how KubeRay submits the job, and for what it does with the cluster
// afterwards, have no counterpart: the keeper submits, and the cluster ends with its job.
func (m *Manifest) readJob(text []byte, job *rayv1.RayJobSpec) error {
	if len(job.ClusterSelector) > 0 {
		return m.errorf("`rayctl submit -c NAME -- COMMAND` runs a job on an existing cluster", "is a RayJob for a cluster that exists already (clusterSelector)")
	}
	if err := m.setCluster(text, "spec", "rayClusterSpec"); err != nil {
		return err
	}
	if job.Entrypoint != "" {
		m.set("job.entrypoint", job.Entrypoint)
	}
	m.setAll("job.metadata", job.Metadata)
	m.setNumber("job.entrypointCpus", job.EntrypointNumCpus)
	m.setNumber("job.entrypointGpus", job.EntrypointNumGpus)
	if job.EntrypointResources != "" {
		m.set("job.entrypointResources", job.EntrypointResources)
	}
	if n := job.BackoffLimit; n != nil && *n > 0 {
		m.set("job.restarts.driver", strconv.Itoa(int(*n)))
		m.set("job.restarts.nodeFailure", strconv.Itoa(int(*n)))
	}
	m.setSeconds("lifetime.total", job.ActiveDeadlineSeconds)
	m.setSeconds("lifetime.queue", job.PreRunningDeadlineSeconds)
	m.noteUnused(job)
	return m.readRuntimeEnv(job.RuntimeEnvYAML)
}

func (m *Manifest) setNumber(path string, n float32) {
	if n > 0 {
		m.set(path, strconv.FormatFloat(float64(n), 'f', -1, 32))
	}
}

func (m *Manifest) setSeconds(path string, n *int32) {
	if n != nil && *n > 0 {
		m.set(path, strconv.Itoa(int(*n))+"s")
	}
}

func (m *Manifest) noteUnused(job *rayv1.RayJobSpec) {
	var unused []string
	for name, is := range map[string]bool{
		"submitterPodTemplate": job.SubmitterPodTemplate != nil, "submitterConfig": job.SubmitterConfig != nil, "jobId": job.JobId != "",
		"deletionStrategy": job.DeletionStrategy != nil, "suspend": job.Suspend, "managedBy": job.ManagedBy != nil,
	} {
		if is {
			unused = append(unused, name)
		}
	}
	if slices.Sort(unused); len(unused) > 0 {
		m.note("%s has no effect: rayctl's keeper submits the job, and the cluster ends with it", strings.Join(unused, ", "))
	}
}

// runtimeEnv is Ray's runtime_env as far as the cluster file has keys for it.
type runtimeEnv struct {
	workingDir string
	modules    []string
	excludes   []string
	env        map[string]string
	rest       map[string]any
}

// readRuntimeEnv is Ray's runtime_env as YAML text. A working directory in it is a URI, or one that the image has.
func (m *Manifest) readRuntimeEnv(text string) error {
	const what = "it is Ray's runtime_env as YAML text"
	r := runtimeEnv{rest: map[string]any{}}
	value, err := spec.PlainYAML(text) // for which N and yes are texts, as for Ray; sigs.k8s.io/yaml makes a key N false
	if err != nil {
		return m.errorf(what, "runtimeEnvYAML cannot be read: %v", err)
	}
	if keys, ok := value.(map[string]any); ok {
		r.rest = keys
	} else if value != nil {
		return m.errorf(what, "runtimeEnvYAML cannot be read: it is not a map of keys")
	}
	for _, known := range []struct {
		key, form string
		into      any
	}{{"working_dir", "a text", &r.workingDir}, {"py_modules", "a list of texts", &r.modules}, {"excludes", "a list of texts", &r.excludes}, {"env_vars", "a map of texts", &r.env}} {
		if err := take(r.rest, known.key, known.into); err != nil {
			return m.errorf("write it so, numbers and true in quotes", "%s of runtimeEnvYAML is not %s", known.key, known.form)
		}
	}
	if err := m.setWorkingDir(r.workingDir); err != nil {
		return err
	}
	for _, module := range r.modules {
		if !spec.IsURI(module) {
			return m.errorf("give a URI, or job.pyModules with --set", "py_modules of runtimeEnvYAML has the path %s, which is of another machine", module)
		}
	}
	if files := spec.ClientFiles(r.rest); len(files) > 0 {
		return m.errorf("write the content of the file there", "%s of runtimeEnvYAML is the file %s, which is of another machine", files[0].Key, files[0].File)
	}
	m.setAll("job.env", r.env)
	return m.setLists(r)
}

func (m *Manifest) setWorkingDir(dir string) error {
	switch {
	case dir == "":
	case spec.IsURI(dir):
		m.set("job.workingDir", dir)
	case path.IsAbs(dir):
		m.set("job.cwd", dir)
	default:
		return m.errorf("give a URI or an absolute path of the image there, and directories of this machine with --working-dir", "working_dir of runtimeEnvYAML is the relative path %q, and there is no directory that it is relative to", dir)
	}
	return nil
}

// setLists sets what is not text. pip and uv may be lists, which have keys of their own, or objects.
func (m *Manifest) setLists(r runtimeEnv) error {
	lists := map[string]any{}
	if len(r.modules) > 0 {
		lists["job.pyModules"] = r.modules
	}
	if len(r.excludes) > 0 {
		lists["job.excludes"] = r.excludes
	}
	for _, installer := range []string{"pip", "uv"} {
		if list, ok := r.rest[installer].([]any); ok {
			lists["job."+installer] = list
			delete(r.rest, installer)
		}
	}
	if len(r.rest) > 0 {
		lists["job.runtimeEnv"] = r.rest
	}
	for _, key := range []string{"job.pyModules", "job.excludes", "job.pip", "job.uv", "job.runtimeEnv"} {
		if lists[key] == nil {
			continue
		}
		text, err := json.Marshal(lists[key])
		if err != nil {
			return m.errorf("", "runtimeEnvYAML cannot be read: %v", err)
		}
		m.set(key, string(text))
	}
	return nil
}

// take moves a key out of an object into a typed value.
func take(from map[string]any, key string, into any) error {
	value, ok := from[key]
	if !ok {
		return nil
	}
	delete(from, key)
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
