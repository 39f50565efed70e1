package admit

import (
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Kueue admits RayClusters and Jobs that have the name of a LocalQueue as a label, each as a whole: its webhooks suspend them until it has room. Where a namespace
// has a queue called "default" they set the label themselves (LocalQueueDefaulting, Kueue 0.17).
type Kueue struct{}

// Info implements Admitter.
func (Kueue) Info() Info {
	const group = "kueue.x-k8s.io"
	return Info{
		Name: "kueue", Title: "Kueue", Group: group, LabelPrefix: group + "/", QueueLabel: group + "/queue-name",
		Suspends: true, HoldsAll: "manageJobsWithoutQueueName", KindOfQueue: "LocalQueue", Requests: "workloads",
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
