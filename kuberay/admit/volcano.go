package admit

import (
	"cmp"
	"fmt"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	volcanobatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Volcano makes the PodGroup that KubeRay's own plug-in would make (controllers/ray/batchscheduler/volcano of ray-operator v1.6.2), so that an operator
// with --batch-scheduler=volcano finds it there, and one without does not care.
type Volcano struct{}

const (
	// HeadGroup is KubeRay's name for the head's group.
	HeadGroup = "headgroup"

	labelPrefix        = "volcano.sh/"
	queueLabel         = labelPrefix + "queue-name"
	priorityClassLabel = "ray.io/priority-class-name"
	defaultQueue       = "default"
)

// Info implements Admitter. KubeRay's plug-in has fixed the object's name.
func (Volcano) Info() Info {
	return Info{
		Name: "volcano", Title: "Volcano", Group: volcano.GroupName, LabelPrefix: labelPrefix, QueueLabel: queueLabel, DefaultQueue: defaultQueue,
		Queues: volcano.SchemeGroupVersion.WithResource("queues"), Objects: volcano.SchemeGroupVersion.WithResource("podgroups"),
		Verbs: []string{"create", "get", "list", "watch"}, ObjectName: "ray-%s-pg", PodAnnotation: volcano.KubeGroupNameAnnotationKey,
	}
}

// Mark implements Admitter.
func (Volcano) Mark(rc *rayv1.RayCluster, s *spec.ClusterSpec) {
	if kuberayspec.Of(s).Queue != "" {
		rc.Labels[queueLabel] = kuberayspec.Of(s).Queue
	}
	if kuberayspec.Of(s).PriorityClassName != "" {
		rc.Labels[priorityClassLabel] = kuberayspec.Of(s).PriorityClassName
	}
}

// MarkPod implements Admitter.
func (v Volcano) MarkPod(t *corev1.PodTemplateSpec, cluster, group string) {
	t.Spec.SchedulerName = v.Info().Name
	t.Annotations[volcano.KubeGroupNameAnnotationKey] = v.Info().ObjectOf(cluster)
	t.Annotations[volcanobatch.TaskSpecKey] = group
}

// Object implements Admitter. A head that is not in the gang, an early one, is none of its members.
func (v Volcano) Object(rc *rayv1.RayCluster) runtime.Object {
	members, resources := Members(rc, v.Info().Holds(&rc.Spec.HeadGroupSpec.Template))
	least := leastOfEach(rc)
	return podGroup(metav1.ObjectMeta{
		Name: v.Info().ObjectOf(rc.Name), Namespace: rc.Namespace, Labels: rc.Labels, Annotations: rc.Annotations,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rc, rayv1.GroupVersion.WithKind("RayCluster"))},
	}, volcano.PodGroupSpec{
		MinMember: members, MinTaskMember: least, MinResources: &resources,
		Queue: rc.Labels[queueLabel], PriorityClassName: rc.Labels[priorityClassLabel],
	})
}

// leastOfEach is the least of each group of pods of an elastic cluster. MinMember only counts: pods of one group beyond its least would stand in for those
// that another lacks. Volcano recommends subGroupPolicy in its stead since 1.14, which an operator that is built with older types drops when it updates
// MinMember; both mean the same here.
func leastOfEach(rc *rayv1.RayCluster) map[string]int32 {
	if !ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
		return nil
	}
	least := map[string]int32{}
	if (Volcano{}).Info().Holds(&rc.Spec.HeadGroupSpec.Template) {
		least[HeadGroup] = 1
	}
	for i := range rc.Spec.WorkerGroupSpecs {
		g := &rc.Spec.WorkerGroupSpecs[i]
		_, n := Pods(g)
		least[g.GroupName] = int32(n)
	}
	return least
}

func podGroup(m metav1.ObjectMeta, s volcano.PodGroupSpec) *volcano.PodGroup {
	return &volcano.PodGroup{TypeMeta: metav1.TypeMeta{APIVersion: volcano.SchemeGroupVersion.String(), Kind: "PodGroup"}, ObjectMeta: m, Spec: s}
}

// Probe implements Prober.
func (v Volcano) Probe(m metav1.ObjectMeta, queue, priorityClass string) runtime.Object {
	return podGroup(metav1.ObjectMeta{Name: v.Info().ObjectOf(m.Name) + "-try", Labels: m.Labels, OwnerReferences: m.OwnerReferences},
		volcano.PodGroupSpec{MinMember: 1, Queue: queue, PriorityClassName: priorityClass})
}

// Seen implements Prober.
func (Volcano) Seen(object *unstructured.Unstructured) bool {
	g := asPodGroup(object)
	return g != nil && (g.Status.Phase != "" || len(g.Status.Conditions) > 0)
}

// Why implements Admitter. Volcano gives the cause in the PodGroup's conditions and in events of type Normal; where there are none, Volcano or the
// queue is missing.
func (Volcano) Why(w Waiting) runstate.Reason {
	g := asPodGroup(w.Object)
	switch {
	case g == nil && w.Overdue:
		name := w.Pod.Annotations[volcano.KubeGroupNameAnnotationKey]
		return runstate.Reason{Code: "PodGroupMissing", Message: fmt.Sprintf("PodGroup %s does not exist, so Volcano does not schedule the pods", name), Hint: "launch the cluster again"}
	case g == nil:
		return runstate.Reason{}
	case g.Status.Phase == "" && w.Overdue:
		return runstate.Reason{
			Code: "PodGroupIgnored", Message: fmt.Sprintf("Volcano ignores the PodGroup: queue %s does not exist, or Volcano does not run", cmp.Or(g.Spec.Queue, defaultQueue)),
			Hint: "compare kuberay.queue with `kubectl get queues`, and check that Volcano's scheduler runs (`rayctl doctor` tests it)",
		}
	case g.Status.Phase == volcano.PodGroupPending:
		return waitsInQueue(g, w.Event)
	}
	for _, c := range g.Status.Conditions {
		if c.Type == volcano.PodGroupUnschedulableType && c.Status == corev1.ConditionTrue {
			return runstate.Reason{Code: c.Reason, Message: "the gang does not fit yet: " + withUnplaced(c.Message, w.Unplaced)}
		}
	}
	return runstate.Reason{}
}

func waitsInQueue(g *volcano.PodGroup, unschedulable *corev1.Event) runstate.Reason {
	r := runstate.Reason{Code: "QueueFull", Message: fmt.Sprintf("the gang waits in queue %s", cmp.Or(g.Spec.Queue, defaultQueue))}
	if unschedulable != nil {
		r.Message += ": " + unschedulable.Message
	}
	return r
}

// withUnplaced adds the first node-level cause, if there is one, to the gang's message.
func withUnplaced(gang, node string) string {
	if node == "" || strings.Contains(gang, node) {
		return gang
	}
	return gang + " (" + node + ")"
}

// asPodGroup is nil for what is none.
func asPodGroup(object *unstructured.Unstructured) *volcano.PodGroup {
	if object == nil {
		return nil
	}
	g := &volcano.PodGroup{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, g); err != nil {
		return nil
	}
	return g
}
