package kubetest

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/test/kubetest/bed"
)

// Stop kills a part of the testbed (bed.APIServer, bed.Operator, ...), as a crash does. At the test's end it runs again.
func (c *Cluster) Stop(t testing.TB, part bed.Part) {
	t.Helper()
	t.Cleanup(func() { c.Start(t, part) })
	ctx, cancel := c.limit()
	defer cancel()
	if err := c.bed.Stop(ctx, part); err != nil {
		t.Fatal(err)
	}
}

// Start starts a stopped part and returns when it works. The part may already run.
func (c *Cluster) Start(t testing.TB, part bed.Part) {
	t.Helper()
	ctx, cancel := c.limit()
	defer cancel()
	if err := c.bed.Start(ctx, part); err != nil {
		t.Fatal(err)
	}
}

// Hang stops a part with SIGSTOP until the function that it returns is called.
func (c *Cluster) Hang(part bed.Part) (func() error, error) { return c.bed.Hang(part) }

// Cleanups have no test context any more.
func (c *Cluster) limit() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), startTimeout)
}

// StopAPIServer kills the API server. Pods continue to run.
func (c *Cluster) StopAPIServer(t testing.TB) { t.Helper(); c.Stop(t, bed.APIServer) }

// StartAPIServer starts the API server again, at the same address, with the same objects.
func (c *Cluster) StartAPIServer(t testing.TB) { t.Helper(); c.Start(t, bed.APIServer) }

// StopOperator kills the KubeRay operator: RayClusters are no longer reconciled.
func (c *Cluster) StopOperator(t testing.TB) { t.Helper(); c.Stop(t, bed.Operator) }

// StartOperator starts it again.
func (c *Cluster) StartOperator(t testing.TB) { t.Helper(); c.Start(t, bed.Operator) }

// StopDNS kills the cluster's name service. Connections by address still work.
func (c *Cluster) StopDNS(t testing.TB) { t.Helper(); c.Stop(t, bed.DNS) }

// StartDNS starts it again.
func (c *Cluster) StartDNS(t testing.TB) { t.Helper(); c.Start(t, bed.DNS) }

// StopVolcano kills Volcano's scheduler and controllers: its pods stay Pending without any event. The CRDs stay.
func (c *Cluster) StopVolcano(t testing.TB) {
	t.Helper()
	c.Stop(t, bed.VolcanoScheduler)
	c.Stop(t, bed.VolcanoControllers)
}

// StartVolcano starts them again.
func (c *Cluster) StartVolcano(t testing.TB) {
	t.Helper()
	c.Start(t, bed.VolcanoScheduler)
	c.Start(t, bed.VolcanoControllers)
}

// LoseNode makes the real node vanish like a machine that loses its power: kubelet and all processes in pods are gone. After
// 16 s the node is NotReady. 10 s later its pods are evicted, if another (simulated) node is Ready: without any Ready node
// Kubernetes evicts nothing. Evicted pods stay Terminating until RestoreNode.
func (c *Cluster) LoseNode(t testing.TB) {
	t.Helper()
	c.Stop(t, bed.Kubelet)
	ctx, cancel := c.limit()
	defer cancel()
	if err := c.bed.KillPods(ctx); err != nil {
		t.Fatal(err)
	}
}

// RestoreNode brings the real node back.
func (c *Cluster) RestoreNode(t testing.TB) { t.Helper(); c.Start(t, bed.Kubelet) }

// DeletePods deletes the pods of a namespace selected by label, at once (grace 0) or like a user (grace < 0: the
// pod's own), and returns their number.
func (c *Cluster) DeletePods(t testing.TB, namespace, selector string, grace time.Duration) int {
	t.Helper()
	ctx, cancel := c.limit()
	defer cancel()
	pods, err := c.Core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		t.Fatal(err)
	}
	var options metav1.DeleteOptions
	if grace >= 0 {
		seconds := int64(grace.Seconds())
		options.GracePeriodSeconds = &seconds
	}
	for _, pod := range pods.Items {
		if err := c.Core.CoreV1().Pods(namespace).Delete(ctx, pod.Name, options); err != nil {
			t.Fatal(err)
		}
	}
	return len(pods.Items)
}
