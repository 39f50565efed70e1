// Package admit has what admits a cluster's pods together or not at all, one file each: Volcano's scheduler, which has an object that holds the pods together, and Kueue,
// which keeps a whole RayCluster suspended until there is room in its queue. The rest of the launcher does not know which one a cluster has, and names none.
package admit

import (
	"cmp"
	"context"
	"fmt"
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

// Admitter admits the gang.
type Admitter interface {
	// Info is what does not depend on a cluster.
	Info() Info
	// Mark brings a RayCluster under the admitter, by its labels.
	Mark(rc *rayv1.RayCluster, s *spec.ClusterSpec)
	// MarkPod does so with the pod template of one of its groups.
	MarkPod(t *corev1.PodTemplateSpec, cluster, group string)
	// Object is created after the RayCluster, which owns it, and holds its pods together; nil: there is none.
	Object(rc *rayv1.RayCluster) runtime.Object
	// Why is why pods without a node wait, as far as the admitter reports it.
	Why(w Waiting) runstate.Reason
}

// Info describes an admitter.
type Info struct {
	// Name is the value of kuberay.scheduler, and the scheduler's name in pods.
	Name string
	// Title is the name for people.
	Title string
	// Group is the API group without which it does not run here.
	Group string
	// LabelPrefix begins the labels and annotations that it gives a meaning.
	LabelPrefix string
	// QueueLabel of a RayCluster, or of another object that it holds, is the queue that it waits in.
	QueueLabel string
	// Queues is where DefaultQueue and others are found, with their state, "Open" if they admit gangs; zero: they are not looked at.
	Queues       schema.GroupVersionResource
	DefaultQueue string
	// Objects is the resource of what Object makes; zero: nothing. Verbs are the permissions that it needs.
	Objects schema.GroupVersionResource
	Verbs   []string
	// ObjectName is the name of a cluster's object, with %s in the place of the cluster's name.
	ObjectName string
	// Suspends: it keeps RayClusters and Jobs that have QueueLabel suspended until it admits them (spec.suspend), each as a whole.
	Suspends bool
	// HoldsAll is its setting by which it does so with those without a queue, too.
	HoldsAll string
	// Resizable is an annotation of RayClusters whose size may change ("true"): each of their sizes is admitted. Without it, or in versions without it, an autoscaler
	// is refused.
	Resizable string
	// KindOfQueue is the kind of a queue of a namespace.
	KindOfQueue string
	// Requests is the resource of its own objects, one for each object that waits in a queue, and RequestLabel their label with that object's UID.
	Requests     schema.GroupVersionResource
	RequestLabel string
	// PodAnnotation of a pod names the object that holds it.
	PodAnnotation string
}

// Prober is an admitter that doctor can try out with an object of its own.
type Prober interface {
	Admitter
	// Probe is an object without resources.
	Probe(m metav1.ObjectMeta, queue, priorityClass string) runtime.Object
	// Seen reports whether the admitter has looked at an object.
	Seen(object *unstructured.Unstructured) bool
}

// Holds reports whether a pod, or a pod template, is in a gang.
func (i Info) Holds(pod metav1.Object) bool {
	return i.PodAnnotation != "" && pod.GetAnnotations()[i.PodAnnotation] != ""
}

// HasObject reports whether there is an object that holds a cluster's pods together.
func (i Info) HasObject() bool { return i.Objects.Resource != "" }

// ObjectOf is the name of a cluster's object.
func (i Info) ObjectOf(cluster string) string { return fmt.Sprintf(i.ObjectName, cluster) }

// Queue is the one that an object waits in; "": none.
func (i Info) Queue(object metav1.Object) string {
	return cmp.Or(object.GetLabels()[i.QueueLabel], i.DefaultQueue)
}

// QueueState reads the state of a queue: "Open" if it admits gangs. It returns Kubernetes' error unchanged.
func (i Info) QueueState(ctx context.Context, c dynamic.Interface, queue string) (string, error) {
	object, err := c.Resource(i.Queues).Get(ctx, queue, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	state, _, _ := unstructured.NestedString(object.Object, "status", "state")
	return state, nil
}

// Waiting is what Kubernetes shows of a cluster whose pods have no node.
type Waiting struct {
	Pod      *corev1.Pod                // the first of them
	Overdue  bool                       // for longer than the admitter needs to report anything
	Object   *unstructured.Unstructured // of the cluster; nil: there is none
	Event    *corev1.Event              // the latest of reason Unschedulable of Object; nil: none
	Unplaced string                     // message of Kubernetes' own scheduler about the pods; "": none
}

// ProbePatience is how long a scheduler may take to look at a probe. Volcano's cycle is one second.
const ProbePatience = 15 * time.Second

// known are all of them. Those whose objects hold pods together are chosen in this order.
var known = []Admitter{Volcano{}, Kueue{}}

// foreign begin the labels of admitters that rayctl does not know: what has one is left alone.
var foreign = []string{"yunikorn.apache.org/", "kai.scheduler/", "ray.io/gang-scheduling-enabled"}

// gangs are those of the known whose objects hold a cluster's pods together.
func gangs() []Admitter { return Served(known).Gangs() }

// suspenders are those of the known that suspend what they have not admitted.
func suspenders() []Info { return Served(known).Suspenders() }

// HelperQueueLabel is the label of kuberay.keeperQueue.
func HelperQueueLabel() string { return suspenders()[0].QueueLabel }

// Titles are the names of those that a cluster file can choose, for people: "A or B".
func Titles() string {
	var titles []string
	for _, a := range gangs() {
		titles = append(titles, a.Info().Title)
	}
	return strings.Join(titles, " or ")
}

// IsLabel reports whether a label or an annotation belongs to what holds pods together. A queue's label is the user's.
func IsLabel(key string) bool {
	return slices.ContainsFunc(gangs(), func(a Admitter) bool { return strings.HasPrefix(key, a.Info().LabelPrefix) })
}

// QueuesObject reports whether a label would make an admitter suspend what has it.
func QueuesObject(key string) bool {
	return slices.ContainsFunc(suspenders(), func(i Info) bool { return strings.Contains(key, i.LabelPrefix) })
}

// Claims reports whether a label of a RayCluster names an admitter that the user has chosen, known here or not.
func Claims(key string) bool {
	return slices.ContainsFunc(suspenders(), func(i Info) bool { return strings.HasPrefix(key, i.LabelPrefix) }) ||
		slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// SuspendedBy is the admitter in whose queue the labels of an object put it, and which suspends it there; zero: none.
func SuspendedBy(labels map[string]string) Info {
	for _, i := range suspenders() {
		if _, ok := labels[i.QueueLabel]; ok {
			return i
		}
	}
	return Info{}
}

// QueueOf is the queue that an object which may be suspended waits in; "": none.
func QueueOf(object metav1.Object) (queue string, by Info) {
	by = SuspendedBy(object.GetLabels())
	return object.GetLabels()[by.QueueLabel], by
}

// Served are those that run behind an API server.
type Served []Admitter

// All is an API server that has every one: for documents that are made without asking one.
func All() Served { return known }

// ServedBy looks through the API server's groups. Of objects that hold pods together it must have the version.
func ServedBy(groups *metav1.APIGroupList) (out Served) {
	for _, a := range known {
		for _, g := range groups.Groups {
			if g.Name == a.Info().Group && isServed(a.Info(), g.Versions) {
				out = append(out, at(a, g.PreferredVersion.Version))
			}
		}
	}
	return out
}

func isServed(i Info, versions []metav1.GroupVersionForDiscovery) bool {
	return !i.HasObject() || slices.ContainsFunc(versions, func(v metav1.GroupVersionForDiscovery) bool {
		return v.GroupVersion == i.Objects.GroupVersion().String()
	})
}

func at(a Admitter, version string) Admitter {
	if q, ok := a.(Queuer); ok {
		return q.At(version)
	}
	return a
}

// Gangs are those whose objects hold a cluster's pods together.
func (s Served) Gangs() (out []Admitter) {
	for _, a := range s {
		if a.Info().HasObject() {
			out = append(out, a)
		}
	}
	return out
}

// Suspenders are those that suspend what they have not admitted.
func (s Served) Suspenders() (out []Info) {
	for _, a := range s {
		if i := a.Info(); i.Suspends {
			out = append(out, i)
		}
	}
	return out
}

// Queuers are those whose own objects say why something waits.
func (s Served) Queuers() (out []Queuer) {
	for _, a := range s {
		if q, ok := a.(Queuer); ok {
			out = append(out, q)
		}
	}
	return out
}

// ByPod returns the admitter that a pod names as its scheduler; None if no admitter has that name.
func ByPod(schedulerName string) Admitter {
	for _, a := range gangs() {
		if a.Info().Name == schedulerName {
			return a
		}
	}
	return None{}
}

// Choose returns the admitter of kuberay.scheduler. With auto it returns, for a gang, the first one that the API server serves. If by is not zero, a queueing system
// admits the whole RayCluster: then it returns None, because a gang's object would reserve resources for pods that do not exist yet.
func Choose(s *spec.ClusterSpec, served Served, by Info) (Admitter, error) {
	suspended, none := by.Suspends, None{}.Info().Name
	switch wish := kuberayspec.Of(s).Scheduler; {
	case suspended && wish != "auto" && wish != none:
		return nil, launcher.Fail(runstate.CodeStartFailed, nil, "leave out kuberay.scheduler, or use a namespace without "+by.Title+" (kuberay.namespace)",
			"%s cannot start: %s admits the whole RayCluster, and kuberay.scheduler: %s would reserve resources for its pods before that", s.Name, by.Title, wish)
	case suspended:
		return None{}, nil
	case wish == "auto" && len(served.Gangs()) == 0 && s.Head.Early:
		return nil, launcher.Fail(runstate.CodeSpec, nil, "install "+Titles()+", or leave out head.early", "the workers of an early head must start together, and this Kubernetes has no gang scheduler")
	case wish == "auto" && len(served.Gangs()) > 0 && s.IsGang():
		return served.Gangs()[0], nil
	case wish != "auto" && wish != none:
		for _, a := range served.Gangs() {
			if a.Info().Name == wish {
				return a, nil
			}
		}
		wanted := ByPod(wish).Info()
		return nil, launcher.Fail(runstate.CodeConfig, nil, "install "+wanted.Title+", or set kuberay.scheduler: none", "this Kubernetes does not serve %s's %s", wanted.Title, wanted.Objects.Resource)
	case s.IsGang() && s.TotalGPUs() > 0 && s.GangNodes() > 1:
		return nil, launcher.Fail(runstate.CodeSpec, nil, "install "+Titles()+", or set gang: false",
			"%d pods with GPUs must start together, and this Kubernetes has no gang scheduler", s.GangNodes())
	}
	return None{}, nil
}
