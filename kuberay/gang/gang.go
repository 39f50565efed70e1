// Package gang has the schedulers that admit a cluster's pods together or not at all, one file each. The rest of the launcher does not know which one a
// cluster has.
package gang

import (
	"context"
	"slices"
	"strings"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Scheduler admits the gang. Each is asked for what it needs on the cluster and on its pods.
type Scheduler interface {
	// Name is the value of kuberay.scheduler.
	Name() string
	// Title is its name for people.
	Title() string
	// Resource is that of the objects which hold a cluster's pods together; zero: it has none.
	Resource() schema.GroupVersionResource
	// LabelPrefix begins the labels and annotations that the scheduler gives a meaning; "": there are none.
	LabelPrefix() string
	// Verbs are the permissions that Resource needs.
	Verbs() []string
	// ObjectName is the name of a cluster's object.
	ObjectName(cluster string) string
	// Cluster prepares the RayCluster's own labels.
	Cluster(rc *rayv1.RayCluster, s *spec.ClusterSpec)
	// Pod prepares the pod template of one group.
	Pod(t *corev1.PodTemplateSpec, cluster, group string)
	// Holds reports whether a pod, or a pod template, is in a gang.
	Holds(pod metav1.Object) bool
	// Object holds the cluster together, created after the RayCluster whose property it is; nil: none.
	Object(rc *rayv1.RayCluster) runtime.Object
	// Queue is the one that the RayCluster waits in; "": none.
	Queue(rc *rayv1.RayCluster) string
	// QueueState reads the state of a queue: "Open" if it admits gangs. It returns Kubernetes' error unchanged.
	QueueState(ctx context.Context, c dynamic.Interface, queue string) (string, error)
	// Probe is an object without resources, with which doctor sees whether the scheduler runs.
	Probe(m metav1.ObjectMeta, queue, priorityClass string) runtime.Object
	// Seen reports whether the scheduler has looked at an object.
	Seen(object *unstructured.Unstructured) bool
	// Waits returns why the pods wait, as far as the scheduler reports it.
	Waits(w Waiting) runstate.Reason
}

// Waiting is what Kubernetes shows of a cluster whose pods have no node.
type Waiting struct {
	Pod      *corev1.Pod                // the first of them
	Overdue  bool                       // for longer than the scheduler needs to report anything
	Object   *unstructured.Unstructured // of the cluster; nil: there is none
	Event    *corev1.Event              // the latest of reason Unschedulable of Object; nil: none
	Unplaced string                     // message of Kubernetes' own scheduler about the pods; "": none
}

// ProbePatience is how long a scheduler may take to look at a probe. Volcano's cycle is one second.
const ProbePatience = 15 * time.Second

// known are the schedulers that have objects of their own.
var known = []Scheduler{Volcano{}}

// Titles are the names of all for people: "A or B".
func Titles() string {
	titles := make([]string, len(known))
	for i, s := range known {
		titles[i] = s.Title()
	}
	return strings.Join(titles, " or ")
}

// IsLabel reports whether a label or an annotation belongs to a scheduler.
func IsLabel(key string) bool {
	return slices.ContainsFunc(known, func(s Scheduler) bool { return s.LabelPrefix() != "" && strings.HasPrefix(key, s.LabelPrefix()) })
}

// Served are those whose objects an API server has.
type Served []Scheduler

// All is an API server that has every one: for documents that are made without asking one.
func All() Served { return known }

// ServedBy looks through the API server's groups.
func ServedBy(groups *metav1.APIGroupList) (out Served) {
	for _, s := range known {
		version := s.Resource().GroupVersion().String()
		if slices.ContainsFunc(groups.Groups, func(g metav1.APIGroup) bool {
			return slices.ContainsFunc(g.Versions, func(v metav1.GroupVersionForDiscovery) bool { return v.GroupVersion == version })
		}) {
			out = append(out, s)
		}
	}
	return out
}

// ByPod is the scheduler that a pod names; None if it is none of those known.
func ByPod(schedulerName string) Scheduler {
	for _, s := range known {
		if s.Name() == schedulerName {
			return s
		}
	}
	return None{}
}

// Choose takes the file's, or the first one that the API server serves where the cluster is a gang. Kueue admits a RayCluster as a whole itself: a scheduler's
// object would take room for pods that do not exist yet.
func Choose(s *spec.ClusterSpec, served Served, kueue bool) (Scheduler, error) {
	switch wish := kuberayspec.Of(s).Scheduler; {
	case kueue && wish != "auto" && wish != None{}.Name():
		return nil, launcher.Fail(runstate.CodeStartFailed, nil, "leave out kuberay.scheduler, or use a namespace without Kueue (kuberay.namespace)",
			"%s cannot start: Kueue admits it as a whole, and kuberay.scheduler: %s would take room for it before", s.Name, wish)
	case kueue:
		return None{}, nil
	case wish == "auto" && len(served) == 0 && s.Head.Early:
		return nil, launcher.Fail(runstate.CodeSpec, nil, "install Volcano, or leave out head.early", "the workers of an early head must start together, and this Kubernetes has no gang scheduler")
	case wish == "auto" && len(served) > 0 && s.IsGang():
		return served[0], nil
	case wish != "auto" && wish != None{}.Name():
		for _, one := range served {
			if one.Name() == wish {
				return one, nil
			}
		}
		title := ByPod(wish).Title()
		return nil, launcher.Fail(runstate.CodeConfig, nil, "install "+title+", or set kuberay.scheduler: none", "this Kubernetes does not serve %s's %s", title, ByPod(wish).Resource().Resource)
	case s.IsGang() && s.TotalGPUs() > 0 && s.GangNodes() > 1:
		return nil, launcher.Fail(runstate.CodeSpec, nil, "install Volcano, or set gang: false",
			"%d pods with GPUs must start together, and this Kubernetes has no gang scheduler", s.GangNodes())
	}
	return None{}, nil
}
