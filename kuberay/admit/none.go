package admit

import (
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// None leaves the pods to Kubernetes' own scheduler, one by one.
type None struct{}

// Info implements Admitter.
func (None) Info() Info { return Info{Name: "none", Title: "none"} }

// Mark implements Admitter.
func (None) Mark(*rayv1.RayCluster, *spec.ClusterSpec) {}

// MarkPod implements Admitter.
func (None) MarkPod(*corev1.PodTemplateSpec, string, string) {}

// Object implements Admitter.
func (None) Object(*rayv1.RayCluster) runtime.Object { return nil }

// Why implements Admitter.
func (None) Why(Waiting) runstate.Reason { return runstate.Reason{} }
