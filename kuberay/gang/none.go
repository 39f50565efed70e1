package gang

import (
	"context"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// None leaves the pods to Kubernetes' own scheduler, one by one.
type None struct{}

// Name implements Scheduler.
func (None) Name() string { return "none" }

// Title implements Scheduler.
func (None) Title() string { return "none" }

// Resource implements Scheduler.
func (None) Resource() schema.GroupVersionResource { return schema.GroupVersionResource{} }

// LabelPrefix implements Scheduler.
func (None) LabelPrefix() string { return "" }

// Verbs implements Scheduler.
func (None) Verbs() []string { return nil }

// ObjectName implements Scheduler.
func (None) ObjectName(string) string { return "" }

// Cluster implements Scheduler.
func (None) Cluster(*rayv1.RayCluster, *spec.ClusterSpec) {}

// Pod implements Scheduler.
func (None) Pod(*corev1.PodTemplateSpec, string, string) {}

// Holds implements Scheduler.
func (None) Holds(metav1.Object) bool { return false }

// Object implements Scheduler.
func (None) Object(*rayv1.RayCluster) runtime.Object { return nil }

// Queue implements Scheduler.
func (None) Queue(*rayv1.RayCluster) string { return "" }

// QueueState implements Scheduler.
func (None) QueueState(context.Context, dynamic.Interface, string) (string, error) { return "", nil }

// Probe implements Scheduler.
func (None) Probe(metav1.ObjectMeta, string, string) runtime.Object { return nil }

// Seen implements Scheduler.
func (None) Seen(*unstructured.Unstructured) bool { return true }

// Waits implements Scheduler.
func (None) Waits(Waiting) runstate.Reason { return runstate.Reason{} }
