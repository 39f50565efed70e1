package kubetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/test/kubetest/bed"
)

func kueue(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: resource}
}

// StartGuest runs Kueue, Kyverno or Gatekeeper until the test ends, for the namespaces that Invite labels. Only one test at a time may use it.
func (c *Cluster) StartGuest(t testing.TB, part bed.Part) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if err := startGuest(ctx, c.bed, part); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := c.limit()
		defer cancel()
		if err := stopGuest(ctx, c.bed, part); err != nil {
			t.Error(err)
		}
	})
}

// Invite lets a guest see a namespace's objects.
func (c *Cluster) Invite(t testing.TB, part bed.Part, namespace string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata": {"labels": {%q: "true"}}}`, guestLabel(part))
	if _, err := c.Core.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// StartKueue runs Kueue until the test ends, for the namespaces that KueueQueue and KueueHoldsAll give it.
func (c *Cluster) StartKueue(t testing.TB) {
	t.Helper()
	c.StartGuest(t, Kueue)
}

// KueueHoldsAll makes Kueue hold all jobs of a namespace, also those without the name of a queue (manageJobsWithoutQueueName).
func (c *Cluster) KueueHoldsAll(t testing.TB, namespace string) {
	t.Helper()
	c.Invite(t, kueueHoldsAll, namespace)
	c.awaitKueue(t, namespace, nil)
}

// awaitKueue waits until Kueue holds a new Job of a namespace. It learns of a queue and of a namespace's labels some time after they are there, and lets pass meanwhile what it
// would hold.
func (c *Cluster) awaitKueue(t testing.TB, namespace string, labels map[string]string) {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "held-", Labels: labels},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "none", Image: "none"}},
		}}},
	}
	Await(t, "Kueue to hold jobs of namespace "+namespace, func(ctx context.Context) error {
		made, err := c.Core.BatchV1().Jobs(namespace).Create(ctx, job, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil && !ptr.Deref(made.Spec.Suspend, false) {
			err = errors.New("it lets them run")
		}
		return err
	})
}

// KueueQueue gives a namespace a queue of Kueue's, called as given, that has so many CPUs and memory without bound, and takes them back for what has a higher priority. A queue called "default" is the one of all jobs that
// name none (Kueue's LocalQueueDefaulting).
func (c *Cluster) KueueQueue(t testing.TB, namespace, queue, cpus string) {
	t.Helper()
	c.Invite(t, Kueue, namespace)
	name := KueueClusterQueue(namespace)
	c.Create(t, "", "{apiVersion: kueue.x-k8s.io/v1beta2, kind: ResourceFlavor, metadata: {name: "+name+"}}")
	t.Cleanup(func() { c.removeKueue(t, "resourceflavors", name) })
	c.Create(t, "", fmt.Sprintf(`
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: %s}
spec:
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority}
  resourceGroups:
  - coveredResources: [cpu, memory, ephemeral-storage, pods]
    flavors: [{name: %[1]s, resources: [{name: cpu, nominalQuota: %q}, {name: memory, nominalQuota: 1Ti}, {name: ephemeral-storage, nominalQuota: 1Ti}, {name: pods, nominalQuota: 100}]}]`, name, cpus))
	t.Cleanup(func() { c.removeKueue(t, "clusterqueues", name) })
	c.Create(t, namespace, fmt.Sprintf("{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: %s}, spec: {clusterQueue: %s}}", queue, name))
	labels := map[string]string{"kueue.x-k8s.io/queue-name": queue}
	if queue == "default" {
		labels = nil
	}
	c.awaitKueue(t, namespace, labels)
}

// KueueStop stops the queue that KueueQueue has given a namespace, or starts it again, and returns when Kueue says so.
func (c *Cluster) KueueStop(t testing.TB, namespace string, stopped bool) {
	t.Helper()
	policy, active := "None", "True"
	if stopped {
		policy, active = "Hold", "False"
	}
	ctx, cancel := c.limit() // also when the test is over
	defer cancel()
	queues, name := c.Dynamic.Resource(kueue("clusterqueues")), KueueClusterQueue(namespace)
	if _, err := queues.Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `{"spec": {"stopPolicy": %q}}`, policy), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	Await(t, "Kueue to see that queue "+name+" is "+policy, func(ctx context.Context) error {
		queue, err := queues.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(queue.Object, "status", "conditions")
		for _, c := range conditions {
			if c, ok := c.(map[string]any); ok && c["type"] == "Active" && c["status"] == active {
				return nil
			}
		}
		return fmt.Errorf("it has %v", conditions)
	})
}

// KueuePriority makes a WorkloadPriorityClass until the test ends.
func (c *Cluster) KueuePriority(t testing.TB, name string, value int) {
	t.Helper()
	c.Create(t, "", fmt.Sprintf("{apiVersion: kueue.x-k8s.io/v1beta2, kind: WorkloadPriorityClass, metadata: {name: %s}, value: %d}", name, value))
	t.Cleanup(func() { c.removeKueue(t, "workloadpriorityclasses", name) })
}

// KueueClusterQueue is the name of the ClusterQueue that KueueQueue gives a namespace, and of its only flavor.
func KueueClusterQueue(namespace string) string { return "kueue-" + namespace }

// removeKueue deletes an object for the whole cluster while Kueue runs, which releases it when no workload uses it.
func (c *Cluster) removeKueue(t testing.TB, resource, name string) {
	t.Helper()
	Await(t, "the end of Kueue's "+resource+" "+name, unhurried(func(ctx context.Context) error {
		err := c.Dynamic.Resource(kueue(resource)).Delete(ctx, name, metav1.DeleteOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(errors.New("it is still there"), err)
	}))
}
