package admit

import (
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// Members counts pods and their requests as KubeRay does: the head, unless it is an early one, and the workers, or with an autoscaler the least of them.
func Members(rc *rayv1.RayCluster, head bool) (int32, corev1.ResourceList) {
	members, sum := int32(0), corev1.ResourceList{}
	if head {
		members = 1
		add(sum, rc.Spec.HeadGroupSpec.Template.Spec, 1)
	}
	for i := range rc.Spec.WorkerGroupSpecs {
		g := &rc.Spec.WorkerGroupSpecs[i]
		n, least := Pods(g)
		if ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
			n = least
		}
		members += int32(n)
		add(sum, g.Template.Spec, int32(n))
	}
	return members, sum
}

// Pods counts a group's pods at the start, and the least of them, as KubeRay does (GetWorkerGroupDesiredReplicas of ray-operator v1.6.2).
func Pods(g *rayv1.WorkerGroupSpec) (n, least int) {
	if ptr.Deref(g.Suspend, false) {
		return 0, 0
	}
	least = int(ptr.Deref(g.MinReplicas, 0))
	n = min(max(int(ptr.Deref(g.Replicas, 0)), least), int(ptr.Deref(g.MaxReplicas, 1<<20)))
	hosts := int(max(1, g.NumOfHosts))
	return n * hosts, least * hosts
}

// add counts the requests of n pods, or limits where there is no request.
func add(sum corev1.ResourceList, pod corev1.PodSpec, n int32) {
	for _, c := range pod.Containers {
		requests := c.Resources.Requests.DeepCopy()
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		for name, q := range c.Resources.Limits {
			if _, ok := requests[name]; !ok {
				requests[name] = q
			}
		}
		for name, q := range requests {
			q.Mul(int64(n))
			have := sum[name]
			have.Add(q)
			sum[name] = have
		}
	}
}
