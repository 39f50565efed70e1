package kubetest

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

// Resources used by tests.
var (
	RayClusters = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayclusters"}
	RayJobs     = schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayjobs"}
	PodGroups   = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "podgroups"}
	Queues      = schema.GroupVersionResource{Group: "scheduling.volcano.sh", Version: "v1beta1", Resource: "queues"}
)

// Create creates an object from its manifest, with strict field validation, as the administrator.
func (c *Cluster) Create(t testing.TB, namespace, manifest string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &object.Object); err != nil {
		t.Fatalf("reading a manifest: %v", err)
	}
	gvr, err := c.resource(object.GroupVersionKind())
	if err != nil {
		t.Fatal(err)
	}
	created, err := c.Dynamic.Resource(gvr).Namespace(namespace).Create(t.Context(), object, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if err != nil {
		t.Fatalf("creating %s %s: %v", object.GetKind(), object.GetName(), err)
	}
	return created
}

func (c *Cluster) resource(kind schema.GroupVersionKind) (schema.GroupVersionResource, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.REST)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("asking what the cluster serves: %w", err)
	}
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(kind.GroupKind(), kind.Version)
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return mapping.Resource, nil
}

// AwaitReady waits until a RayCluster is ready with all its workers. RayClusterProvisioned alone proves nothing: it
// is also true when a quota refused a worker.
func (c *Cluster) AwaitReady(t testing.TB, namespace, name string) {
	t.Helper()
	defer c.logIfFailed(t, namespace)
	Await(t, "RayCluster "+name+" to be ready", func(ctx context.Context) error {
		cluster, err := c.Dynamic.Resource(RayClusters).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		state, _, _ := unstructured.NestedString(cluster.Object, "status", "state")
		ready, _, _ := unstructured.NestedInt64(cluster.Object, "status", "readyWorkerReplicas")
		wanted, _, _ := unstructured.NestedInt64(cluster.Object, "status", "desiredWorkerReplicas")
		if state != "ready" || ready != wanted {
			return fmt.Errorf("its state is %q, %d of %d workers are ready: %v", state, ready, wanted, c.podStates(ctx, namespace))
		}
		return nil
	})
}

// podStates has a line for each pod, for messages.
func (c *Cluster) podStates(ctx context.Context, namespace string) []string {
	pods, err := c.Core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return []string{err.Error()}
	}
	var lines []string
	for _, pod := range pods.Items {
		line := fmt.Sprintf("%s %s on %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName)
		for _, s := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			if s.State.Waiting != nil {
				line += fmt.Sprintf(" (%s: %s %s)", s.Name, s.State.Waiting.Reason, s.State.Waiting.Message)
			}
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Status == "False" && condition.Message != "" {
				line += fmt.Sprintf(" (%s: %s)", condition.Reason, condition.Message)
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// logIfFailed adds the last lines of a namespace's containers to a failed test's log.
func (c *Cluster) logIfFailed(t testing.TB, namespace string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	ctx, cancel := c.limit()
	defer cancel()
	pods, err := c.Core.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Log(err)
		return
	}
	lines := int64(30)
	for _, pod := range pods.Items {
		for _, container := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
			options := &corev1.PodLogOptions{Container: container.Name, TailLines: &lines}
			text, err := c.Core.CoreV1().Pods(namespace).GetLogs(pod.Name, options).DoRaw(ctx)
			t.Logf("%s, %s: %s (%v)", pod.Name, container.Name, text, err)
		}
	}
}
