//go:build kubernetes

package kuberay_test

import (
	"bytes"
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rayctl/rayctl/kuberay"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
)

// TestGang: two clusters of two one-GPU workers on a node with three GPUs. One runs whole while the other waits whole, with a reason;
// then the other runs.
func TestGang(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{GPUs: 3})
	ns := c.Namespace(t)
	l := kuberay.New(kuberay.Config{Kubeconfig: c.KubeconfigFor(t, ns)})
	var ids []launcher.ID
	for _, name := range []string{"one", "two"} {
		s := smallSpec()
		worker := smallNode()
		worker.GPUs = 1
		n := 2
		s.Name, s.Workers, s.Job.Entrypoint = name, []spec.WorkerGroup{{Name: "w", Replicas: &n, NodeResources: worker}}, "sleep 10"
		id, err := l.Launch(t.Context(), s, launcher.Payload{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	watching, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	for i, id := range ids {
		statuses, err := l.Watch(watching, id)
		if err != nil {
			t.Fatal(err)
		}
		var last launcher.Status
		for st := range statuses {
			if last.Phase != st.Phase && st.Phase == launcher.Ready && i == 0 {
				other := scheduled(t, c, ns, ids[1])
				if first := scheduled(t, c, ns, id); first != 3 || other != 0 {
					t.Errorf("%d pods of the first have a node, and %d of the second", first, other)
				}
			}
			last = st
		}
		if last.Exit == nil || last.Exit.Code != 0 {
			t.Errorf("%s: %+v", id, last)
		}
	}
}

// scheduled counts the Ray pods of a cluster that have a node.
func scheduled(t *testing.T, c *kubetest.Cluster, namespace string, id launcher.ID) (n int) {
	t.Helper()
	pods, err := c.Core.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "ray.io/cluster=" + string(id)})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if p.Spec.NodeName != "" && p.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}

// TestBatchScheduler: an operator with --batch-scheduler=volcano adopts our PodGroup; there is never a second one.
func TestBatchScheduler(t *testing.T) {
	c := kubetest.Start(t, kubetest.Options{BatchScheduler: true})
	ns := c.Namespace(t)
	b := bed{Cluster: c, namespace: ns, kubeconfig: c.KubeconfigFor(t, ns)}
	l := kuberay.New(kuberay.Config{Kubeconfig: b.kubeconfig})
	s := smallSpec()
	s.Name, s.Workers, s.Job.Entrypoint = "adopted", []spec.WorkerGroup{{Name: "w", NodeResources: smallNode()}}, "echo with its own plug-in"
	var out bytes.Buffer
	seen := 0
	oc, err := launcher.Run(t.Context(), l, s, launcher.Payload{}, launcher.RunOptions{Stdout: &out, OnStatus: func(st launcher.Status) {
		if st.Phase != launcher.Ready {
			return
		}
		groups, err := c.Dynamic.Resource(schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}).Namespace(ns).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(groups.Items) != 1 {
			t.Errorf("%d PodGroups, %v", len(groups.Items), err)
		}
		seen++
	}})
	if err != nil {
		t.Fatal(err)
	}
	if oc.Receipt.Exit.Code != 0 || out.String() != "with its own plug-in\n" || seen == 0 {
		t.Errorf("exit %+v, output %q, ready %d", oc.Receipt.Exit, out.String(), seen)
	}
	if left := b.allocated(t, oc.ID); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
