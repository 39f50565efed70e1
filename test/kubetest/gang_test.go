package kubetest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/kubetest/bed"
)

// TestGangsAreAdmittedWhole is the gang proof of the GPU decision guide: 8 GPUs, two clusters of 5 one-GPU workers, each with a PodGroup made
// by the client. One gets all of its workers, the other none until the first ends.
func TestGangsAreAdmittedWhole(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{Simulated: bed.Simulated{Nodes: 2, CPUs: 32, GPUs: 4}})
	ns := c.Namespace(t)
	for _, name := range []string{"a", "b"} {
		c.Create(t, ns, gpuCluster(name, 5))
		c.Create(t, ns, fmt.Sprintf(podGroup, name, 6))
	}
	var first, second string
	kubetest.Await(t, "one cluster to run whole", func(ctx context.Context) error {
		a, b, err := runningPods(ctx, c, ns)
		if err != nil {
			return err
		}
		first, second = "a", "b"
		if b > a {
			a, b, first, second = b, a, "b", "a"
		}
		if b > 0 {
			t.Fatalf("%d pods of one cluster and %d of the other run: neither is whole", a, b)
		}
		if a != 6 {
			return fmt.Errorf("%d pods of 6 run", a)
		}
		return nil
	})
	if err := c.Dynamic.Resource(kubetest.RayClusters).Namespace(ns).Delete(t.Context(), first, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Dynamic.Resource(kubetest.PodGroups).Namespace(ns).Delete(t.Context(), first, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.AwaitReady(t, ns, second)
}

// gpuCluster is a cluster of one-GPU workers, all pods on simulated nodes.
func gpuCluster(name string, workers int) string {
	simulated := `schedulerName: volcano
        nodeSelector: {type: kwok}
        tolerations: [{key: kwok.x-k8s.io/node, operator: Exists}]`
	manifest := strings.ReplaceAll(rayCluster(name, workers), "schedulerName: volcano", simulated)
	// The second is in the worker's section, which is indented by two more.
	head, worker, _ := strings.Cut(manifest, "workerGroupSpecs:")
	worker = strings.ReplaceAll(worker, "\n        nodeSelector", "\n          nodeSelector")
	worker = strings.ReplaceAll(worker, "\n        tolerations", "\n          tolerations")
	worker = strings.ReplaceAll(worker, "limits: {memory: 3Gi}", "limits: {memory: 3Gi, nvidia.com/gpu: 1}")
	return head + "workerGroupSpecs:" + worker
}

// runningPods counts the bound pods of the clusters a and b.
func runningPods(ctx context.Context, c *kubetest.Cluster, ns string) (a, b int, err error) {
	pods, err := c.Core.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, 0, err
	}
	for _, pod := range pods.Items {
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		switch pod.Labels["ray.io/cluster"] {
		case "a":
			a++
		case "b":
			b++
		}
	}
	return a, b, nil
}

// TestTheOperatorMakesPodGroupsIfToldSo: with --batch-scheduler=volcano the operator makes a PodGroup. Clients have to use the same name and
// size, so that there is never a second one.
func TestTheOperatorMakesPodGroupsIfToldSo(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{BatchScheduler: true})
	ns := c.Namespace(t)
	c.Create(t, ns, rayCluster("own", 2))
	kubetest.Await(t, "the operator's PodGroup", func(ctx context.Context) error {
		group, err := c.Dynamic.Resource(kubetest.PodGroups).Namespace(ns).Get(ctx, "ray-own-pg", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if n, _, _ := unstructured.NestedInt64(group.Object, "spec", "minMember"); n != 3 {
			t.Errorf("its minMember is %d, want 3", n)
		}
		return nil
	})
	if err := c.Dynamic.Resource(kubetest.RayClusters).Namespace(ns).Delete(t.Context(), "own", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.NothingLeft(t, ns, nil)
}
