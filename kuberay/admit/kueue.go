package admit

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Kueue admits RayClusters and Jobs that have the name of a LocalQueue as a label, each as a whole: its webhooks suspend them until it has room. Where a namespace
// has a queue called "default" they set the label themselves (LocalQueueDefaulting, Kueue 0.17).
type Kueue struct {
	version string // of its API
}

// Info implements Admitter.
func (k Kueue) Info() Info {
	const group = "kueue.x-k8s.io"
	return Info{
		Name: "kueue", Title: "Kueue", Group: group, LabelPrefix: group + "/", QueueLabel: group + "/queue-name",
		Suspends: true, HoldsAll: "manageJobsWithoutQueueName", KindOfQueue: "LocalQueue", Resizable: group + "/elastic-job",
		Requests:     schema.GroupVersionResource{Group: group, Version: cmp.Or(k.version, "v1beta1"), Resource: "workloads"},
		RequestLabel: group + "/job-uid",
	}
}

// Mark implements Admitter: the label is one of the file's own.
func (Kueue) Mark(*rayv1.RayCluster, *spec.ClusterSpec) {}

// MarkPod implements Admitter.
func (Kueue) MarkPod(*corev1.PodTemplateSpec, string, string) {}

// Object implements Admitter: Kueue makes its own.
func (Kueue) Object(*rayv1.RayCluster) runtime.Object { return nil }

// Why implements Admitter: no pod waits for Kueue, as there is none before it admits the RayCluster.
func (Kueue) Why(Waiting) runstate.Reason { return runstate.Reason{} }

// At implements Queuer.
func (Kueue) At(version string) Admitter { return Kueue{version} }

// Held implements Queuer, by the Workload's conditions (kueue 0.17, apis/kueue/v1beta2/workload_types.go): it was taken back, it has no quota, or a check of the
// ClusterQueue is not through. The sentences are Kueue's own.
func (k Kueue) Held(ctx context.Context, c dynamic.Interface, workload *unstructured.Unstructured) Held {
	evicted, takenBack := condition(workload, "Evicted")
	pending, reserved := condition(workload, "QuotaReserved")
	if reserved {
		return Held{Why: unchecked(workload)}
	}
	active, set, _ := unstructured.NestedBool(workload.Object, "spec", "active")
	return Held{Why: join(evicted, pending), TakenBack: takenBack, Stopped: set && !active, Never: k.never(ctx, c, workload, pending)}
}

// unchecked is what a check of the ClusterQueue waits for.
func unchecked(workload *unstructured.Unstructured) string {
	checks, _, _ := unstructured.NestedSlice(workload.Object, "status", "admissionChecks")
	for _, c := range checks {
		if check, ok := c.(map[string]any); ok && check["state"] != "Ready" {
			return fmt.Sprintf("admission check %v is %v: %v", check["name"], check["state"], check["message"])
		}
	}
	return ""
}

// condition is the message of a condition, and whether it is true.
func condition(object *unstructured.Unstructured, name string) (message string, is bool) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == name {
			message, _ = c["message"].(string)
			return message, c["status"] == "True"
		}
	}
	return "", false
}

// join leaves out what the other says, too.
func join(first, second string) string {
	switch {
	case first == "" || strings.Contains(second, first):
		return second
	case second == "" || strings.Contains(first, second):
		return first
	}
	return strings.TrimSuffix(first, ".") + "; " + second
}
