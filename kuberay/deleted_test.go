package kuberay_test

import (
	"context"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// TestHeadPodDeleted: KubeRay makes another head, which has no record of the job.
func TestHeadPodDeleted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.begin(t, b.l, named("beheaded", waitingDriver))
	r.printed(t, "begun\n")
	b.DeletePods(t, b.namespace, "ray.io/cluster=beheaded,ray.io/node-type=head", 0)
	if e := r.wantEnd(t, "lost", runstate.CodeLost, "begun\n"); !e.Retryable || !strings.Contains(e.Message, "head") {
		t.Errorf("a lost head is retryable and named: %+v", e)
	}
}

// TestRayClusterDeleted: somebody deletes the RayCluster before Ray is up. No head will ever answer the keeper, in a pod or here. Pods that never
// ran cost nothing.
func TestRayClusterDeleted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	queue := b.tinyQueue(t)
	for name, keeper := range map[string]string{"kept": "", "unkept": "none"} {
		s := named(name, "echo never")
		s.Sections = kuberayspec.In(&kuberayspec.Section{Queue: queue, Keeper: keeper})
		r := b.begin(t, b.l, s)
		r.until(t, "word of the queue's limit", func(st launcher.Status) bool { return st.Reason.Code == "QueueFull" })
		if err := b.Dynamic.Resource(kubetest.RayClusters).Namespace(b.namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if e := r.wantEnd(t, "lost", runstate.CodeLost, ""); !strings.Contains(e.Message, "RayCluster was deleted: "+b.namespace+"/"+name) {
			t.Errorf("exit %+v", e)
		}
		if u := r.outcome.Receipt.Usage; keeper == "" && (u.Nodes != 1 || u.NodeSeconds != 0) {
			t.Errorf("pods that never ran are charged: %+v", u)
		}
	}
}

// TestRayClusterDeletedWhileRunning: the end names the RayCluster, not a head that does not answer.
func TestRayClusterDeletedWhileRunning(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.begin(t, b.l, named("razed", waitingDriver))
	r.printed(t, "begun\n")
	if err := b.Dynamic.Resource(kubetest.RayClusters).Namespace(b.namespace).Delete(t.Context(), "razed", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := r.wantEnd(t, "lost", runstate.CodeLost, "begun\n"); !e.Retryable || !strings.Contains(e.Message, "RayCluster was deleted: "+b.namespace+"/razed") {
		t.Errorf("exit %+v", e)
	}
}

// TestKeeperJobDeleted: somebody deletes the Job, and with it everything except the record, whose result then names that cause.
func TestKeeperJobDeleted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.begin(t, b.l, named("forgotten", waitingDriver))
	r.printed(t, "begun\n")
	if err := b.Core.BatchV1().Jobs(b.namespace).Delete(t.Context(), string(r.id), metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	if e := r.wantEnd(t, "lost", runstate.CodeLost, "begun\n"); !strings.Contains(e.Message, "the keeper was deleted") {
		t.Errorf("exit %+v", e)
	}
}

// TestNamespaceDeleted: the run and its record are deleted with their namespace, and the client reports that; no new run starts there.
func TestNamespaceDeleted(t *testing.T) {
	pace.Parallel(t)
	b := newBed(t)
	r := b.begin(t, b.l, named("homeless", waitingDriver))
	r.printed(t, "begun\n")
	// A finalizer of somebody else keeps the namespace in its end.
	b.Create(t, b.namespace, `{apiVersion: v1, kind: ConfigMap, metadata: {name: stays, finalizers: [example.com/stays]}}`)
	if err := b.Core.CoreV1().Namespaces().Delete(t.Context(), b.namespace, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		patch := []byte(`{"metadata": {"finalizers": null}}`)
		if _, err := b.Core.CoreV1().ConfigMaps(b.namespace).Patch(context.Background(), "stays", "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
			t.Error(err)
		}
	})
	e, _ := r.ended(t)
	if e.Code != runstate.CodeLost || !strings.Contains(e.Message, "deleted") {
		t.Errorf("exit %+v", e)
	}
	_, err := b.l.Launch(t.Context(), named("late", "echo never"), launcher.Payload{})
	if launcher.ExitCode(err) != runstate.CodeStartFailed || !strings.Contains(err.Error(), "is being deleted") {
		t.Errorf("launch: code %d: %v", launcher.ExitCode(err), err)
	}
}
