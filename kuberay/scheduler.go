package kuberay

import (
	"cmp"
	"context"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	volcanobatch "volcano.sh/apis/pkg/apis/batch/v1alpha1"
	volcano "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// scheduler admits the gang. Each is asked for what it needs on the cluster and on its pods; the rest of the launcher does not
// know which one it is.
type scheduler interface {
	// name is the value of kuberay.scheduler.
	name() string
	// cluster prepares the RayCluster's own labels.
	cluster(rc *rayv1.RayCluster, s *spec.ClusterSpec)
	// pod prepares the pod template of one group.
	pod(t *corev1.PodTemplateSpec, cluster, group string)
	// gang is the object that holds the cluster together, created after the RayCluster whose property it is; nil: none.
	gang(rc *rayv1.RayCluster) runtime.Object
}

// chooseScheduler takes the file's, or Volcano where the API server serves it and the cluster is a gang.
func chooseScheduler(s *spec.ClusterSpec, volcanoServed bool) (scheduler, error) {
	switch wish := s.KubeRay.Scheduler; {
	case wish == "volcano" && !volcanoServed:
		return nil, launcher.Fail(runstate.CodeConfig, nil, "install Volcano, or set kuberay.scheduler: none", "this Kubernetes does not serve Volcano's PodGroups")
	case wish == "volcano", wish == "auto" && volcanoServed && s.IsGang():
		return volcanoScheduler{}, nil
	case s.IsGang() && s.TotalGPUs() > 0 && s.GangNodes() > 1:
		return nil, launcher.Fail(runstate.CodeSpec, nil, "use Volcano, or say gang: false",
			"%d pods with GPUs would start in part: nothing here admits a gang as a whole", s.GangNodes())
	default:
		return noScheduler{}, nil
	}
}

// noScheduler leaves the pods to Kubernetes' own scheduler, one by one.
type noScheduler struct{}

func (noScheduler) name() string                                 { return "none" }
func (noScheduler) cluster(*rayv1.RayCluster, *spec.ClusterSpec) {}
func (noScheduler) pod(*corev1.PodTemplateSpec, string, string)  {}
func (noScheduler) gang(*rayv1.RayCluster) runtime.Object        { return nil }

// volcanoScheduler makes the PodGroup that KubeRay's own plug-in would make (controllers/ray/batchscheduler/volcano of
// ray-operator v1.6.2), so that an operator with --batch-scheduler=volcano finds it there, and one without does not care.
type volcanoScheduler struct{}

const (
	volcanoName        = "volcano"
	queueLabel         = "volcano.sh/queue-name"
	priorityClassLabel = "ray.io/priority-class-name"
)

func (volcanoScheduler) name() string { return volcanoName }

func (volcanoScheduler) cluster(rc *rayv1.RayCluster, s *spec.ClusterSpec) {
	if s.KubeRay.Queue != "" {
		rc.Labels[queueLabel] = s.KubeRay.Queue
	}
	if s.KubeRay.PriorityClassName != "" {
		rc.Labels[priorityClassLabel] = s.KubeRay.PriorityClassName
	}
}

func (volcanoScheduler) pod(t *corev1.PodTemplateSpec, cluster, group string) {
	t.Spec.SchedulerName = volcanoName
	t.Annotations[volcano.KubeGroupNameAnnotationKey] = podGroupName(cluster)
	t.Annotations[volcanobatch.TaskSpecKey] = group
}

func (volcanoScheduler) gang(rc *rayv1.RayCluster) runtime.Object {
	members, resources := gangOf(rc)
	return &volcano.PodGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: volcano.SchemeGroupVersion.String(), Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{
			Name: podGroupName(rc.Name), Namespace: rc.Namespace, Labels: rc.Labels, Annotations: rc.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(rc, rayv1.GroupVersion.WithKind("RayCluster"))},
		},
		Spec: volcano.PodGroupSpec{
			MinMember: members, MinResources: &resources,
			Queue: rc.Labels[queueLabel], PriorityClassName: rc.Labels[priorityClassLabel],
		},
	}
}

// queueOf is Volcano's queue of the plan; "" where Volcano does not admit it.
func (p *plan) queueOf() string {
	if p.scheduler.name() != volcanoName {
		return ""
	}
	rc, err := p.rayCluster()
	if err != nil {
		return "" // said where it is created
	}
	return cmp.Or(rc.Labels[queueLabel], "default")
}

// requireQueue refuses a launch into a queue that does not exist, of which Volcano itself would say nothing at all. Who may not look at queues,
// which are no namespace's, finds out by waiting.
func (c *client) requireQueue(ctx context.Context, p *plan) error {
	name := p.queueOf()
	if name == "" {
		return nil
	}
	_, err := c.dynamic.Resource(queues).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return launcher.Fail(runstate.CodeStartFailed, err, queueHint, "%s cannot start: Volcano has no queue %s", p.spec.Name, name)
	}
	return nil
}

// queueHint is the next step where a queue is missing.
const queueHint = "change kuberay.queue to one that `kubectl get queues.scheduling.volcano.sh` lists"

// gangOf counts pods and their requests as KubeRay does: the head and the workers, or with an autoscaler the least of them.
func gangOf(rc *rayv1.RayCluster) (int32, corev1.ResourceList) {
	members, sum := int32(1), corev1.ResourceList{}
	add(sum, rc.Spec.HeadGroupSpec.Template.Spec, 1)
	for i := range rc.Spec.WorkerGroupSpecs {
		g := &rc.Spec.WorkerGroupSpecs[i]
		n, least := podsOfGroup(g)
		if ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
			n = least
		}
		members += int32(n)
		add(sum, g.Template.Spec, int32(n))
	}
	return members, sum
}

// add counts the requests of n pods, or limits where there is no request.
func add(sum corev1.ResourceList, pod corev1.PodSpec, n int32) {
	for _, c := range pod.Containers {
		requests := c.Resources.Requests.DeepCopy()
		if requests == nil {
			requests = corev1.ResourceList{}
		}
		for name, q := range c.Resources.Limits {
			if _, ok := requests[name]; !ok {
				requests[name] = q
			}
		}
		for name, q := range requests {
			q.Mul(int64(n))
			have := sum[name]
			have.Add(q)
			sum[name] = have
		}
	}
}
