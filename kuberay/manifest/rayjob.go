package manifest

import (
	"slices"
	"strconv"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
)

// readJob turns a RayJob into its cluster and a job. The fields for how KubeRay submits the job, and for what it does with the cluster
// afterwards, have no counterpart: the keeper submits, and the cluster ends with its job.
func (m *Manifest) readJob(main *object, job *rayv1.RayJobSpec) error {
	if len(job.ClusterSelector) > 0 {
		return m.errorf("`rayctl submit -c NAME -- COMMAND` runs a job on an existing cluster", "is a RayJob for a cluster that exists already (clusterSelector)")
	}
	if err := m.setCluster(main.text, "spec", "rayClusterSpec"); err != nil {
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
	return m.readRuntimeEnv(main.index, job.RuntimeEnvYAML)
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
