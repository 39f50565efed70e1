package kuberay_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/kubetest"
)

// earlyRazed: somebody deletes the RayCluster while the gang waits: head and gang end.
func (b bed) earlyRazed(t *testing.T) {
	r := b.run(t, b.l, b.early(t, "razed", "", "echo never"))
	r.until(t, "waiting for its gang", gangWaits)
	must(t, b.Dynamic.Resource(kubetest.RayClusters).Namespace(b.namespace).Delete(t.Context(), "razed", metav1.DeleteOptions{}))
	b.wantLost(t, r, "RayCluster was deleted")
}

// earlyForgotten: the same with the keeper's Job. The end comes when the kubelet has looked at the record's pod again.
func (b bed) earlyForgotten(t *testing.T) {
	r := b.run(t, b.l, b.early(t, "forgotten", "", "echo never"))
	r.until(t, "waiting for its gang", gangWaits)
	background := metav1.DeletePropagationBackground
	must(t, b.Core.BatchV1().Jobs(b.namespace).Delete(t.Context(), "forgotten", metav1.DeleteOptions{PropagationPolicy: &background}))
	b.wantLost(t, r, "the keeper was deleted")
}

// wantLost: a cluster that was deleted while its gang waited is lost, and nothing of it is left.
func (b bed) wantLost(t *testing.T, r *running, why string) {
	t.Helper()
	if e := r.wantEnd(t, "lost", runstate.CodeLost, ""); !strings.Contains(e.Message, why) {
		t.Errorf("%+v", e)
	}
	for _, a := range r.status.Allocations {
		if a.Purpose == runstate.PurposeGang && a.Granted != nil {
			t.Errorf("%+v", a)
		}
	}
	if left := b.left(t, r.id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// earlyHeadLost: the head's pod is deleted in the moment when the first worker gets its node: the next attempt has another head, and a whole gang.
func (b bed) earlyHeadLost(t *testing.T) {
	s := b.early(t, "beheaded", "", "echo attempt $RAYCTL_ATTEMPT; "+aliveNodes)
	s.Job.Restarts.NodeFailure = 1
	r := b.run(t, b.l, s)
	r.until(t, "waiting for its gang", func(st launcher.Status) bool {
		return gangWaits(st) && allocation(st, runstate.PurposeHead).State == runstate.AllocationGranted
	})
	workers, err := b.Core.CoreV1().Pods(b.namespace).Watch(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/cluster=beheaded,ray.io/node-type=worker"})
	if err != nil {
		t.Fatal(err)
	}
	defer workers.Stop()
	b.widen(t, kuberayspec.Of(s).Queue)
	for change := range workers.ResultChan() {
		if pod, ok := change.Object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			break
		}
	}
	b.DeletePods(t, b.namespace, "ray.io/cluster=beheaded,ray.io/node-type=head", 0)
	r.wantEnd(t, "succeeded", 0, "attempt 2\nnodes: 3\n")
}
