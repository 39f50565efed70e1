package observe

import (
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/transport"
)

// Admission may add containers to a pod of rayctl's, at any place in the list, such as a service mesh's proxy, which never ends by itself. Whether a pod has ended is
// therefore decided by the pod's own container, which is found by its name.

// ended is the state with which a pod's own container has ended; nil while it runs.
func ended(p *corev1.Pod, container string) *corev1.ContainerStateTerminated {
	for _, s := range p.Status.ContainerStatuses {
		if s.Name == container {
			return s.State.Terminated
		}
	}
	return nil
}

// Finished reports whether a pod's own container has ended, whatever else still runs in the pod.
func Finished(p *corev1.Pod, container string) bool {
	return transport.PodEnded(p) || ended(p, container) != nil
}

// Succeeded reports whether a pod's own container has exited with 0. The keeper's and the record's do so only when all their work is done.
func Succeeded(p *corev1.Pod, container string) bool {
	t := ended(p, container)
	return p.Status.Phase == corev1.PodSucceeded || t != nil && t.ExitCode == 0
}

// own returns a pod's own container, found by its name.
func own(p *corev1.Pod, container string) corev1.Container {
	for _, c := range p.Spec.Containers {
		if c.Name == container {
			return c
		}
	}
	return corev1.Container{}
}

// startCommand is a variable that KubeRay gives to Ray's container alone.
const startCommand = "KUBERAY_GEN_RAY_START_CMD"

// RayContainer is the name of the container in which KubeRay starts Ray: the first one in the RayCluster's template, but not always the first one in the pod.
func RayContainer(p *corev1.Pod) string {
	for _, c := range p.Spec.Containers {
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == startCommand }) {
			return c.Name
		}
	}
	return p.Spec.Containers[0].Name
}

// RecordEnded reports whether the record has ended: its Job has ended, or the own container of its pod has succeeded and only other containers still run.
func (o *Snapshot) RecordEnded() bool {
	return o.Record != nil && (JobEnded(o.Record) || slices.ContainsFunc(o.Role(objects.RoleRecord), func(p *corev1.Pod) bool {
		return isOf(p, o.Record) && Succeeded(p, objects.RecordContainer)
	}))
}

// RecordSucceeded reports whether the record has the result.
func (o *Snapshot) RecordSucceeded() bool {
	return o.Record != nil && (o.Record.Status.Succeeded > 0 || !JobEnded(o.Record) && o.RecordEnded())
}

// isOf reports whether a pod belongs to a Job.
func isOf(p *corev1.Pod, job *batchv1.Job) bool { return metav1.IsControlledBy(p, job) }

// held names the containers that keep the Job of a successful keeper running, or that failed after the keeper; "" if there are none.
func (o *Snapshot) held() string {
	for _, p := range o.Role(objects.RoleKeeper) {
		if o.Job == nil || !isOf(p, o.Job) || p.Status.Phase == corev1.PodSucceeded || !Succeeded(p, objects.KeeperContainer) {
			continue
		}
		var left []string
		for _, s := range p.Status.ContainerStatuses {
			if s.State.Running != nil {
				left = append(left, s.Name)
			}
		}
		if len(left) > 0 {
			return fmt.Sprintf("the keeper has ended; other containers of its pod %s have not: %s", p.Name, strings.Join(left, ", "))
		}
		if p.Status.Phase == corev1.PodFailed {
			return fmt.Sprintf("the keeper has ended, and then another container of its pod %s failed", p.Name)
		}
	}
	return ""
}

// HeldByContainer reports whether another container keeps the keeper's Job from ending.
func (o *Snapshot) HeldByContainer() bool { return o.held() != "" }
