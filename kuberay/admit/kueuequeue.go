package admit

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// localQueue and clusterQueue are what is read of Kueue's types (kueue 0.17, apis/kueue/v1beta1 and v1beta2).
type localQueue struct {
	Spec struct {
		ClusterQueue string `json:"clusterQueue"`
	} `json:"spec"`
	Status struct {
		Conditions         []metav1.Condition `json:"conditions"`
		FlavorsReservation []struct {
			Name      string `json:"name"`
			Resources []struct {
				Name string `json:"name"`
			} `json:"resources"`
		} `json:"flavorsReservation"`
	} `json:"status"`
}

type clusterQueue struct {
	Spec struct {
		ResourceGroups    []resourceGroup       `json:"resourceGroups"`
		CohortName        string                `json:"cohortName"`
		Cohort            string                `json:"cohort"` // v1beta1
		NamespaceSelector *metav1.LabelSelector `json:"namespaceSelector"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

type resourceGroup struct {
	CoveredResources []corev1.ResourceName `json:"coveredResources"`
	Flavors          []flavor              `json:"flavors"`
}

type flavor struct {
	Name      string `json:"name"`
	Resources []struct {
		Name           corev1.ResourceName `json:"name"`
		NominalQuota   resource.Quantity   `json:"nominalQuota"`
		BorrowingLimit *resource.Quantity  `json:"borrowingLimit"`
	} `json:"resources"`
}

func (k Kueue) resource(name string) schema.GroupVersionResource {
	return k.Info().Requests.GroupVersion().WithResource(name)
}

// Judge implements Queuer: the LocalQueue, which users may read, has whether it is active; the quotas are the ClusterQueue's, which only some users may read.
func (k Kueue) Judge(ctx context.Context, c dynamic.Interface, namespace, queue string, rc *rayv1.RayCluster) (Verdict, error) {
	local, err := read[localQueue](ctx, c.Resource(k.resource("localqueues")).Namespace(namespace), queue)
	v := Verdict{Shown: "LocalQueue " + queue}
	switch {
	case apierrors.IsForbidden(err):
		v.Unread = []string{"localqueues." + k.Info().Group}
		return v, nil
	case apierrors.IsNotFound(err):
		v.Never = fmt.Sprintf("there is no LocalQueue %s in namespace %s", queue, namespace)
		v.Hint = fmt.Sprintf("set the label %s in labels to one that `kubectl get localqueues -n %s` lists", k.Info().QueueLabel, namespace)
		return v, nil
	case err != nil:
		return v, err
	}
	name := local.Spec.ClusterQueue
	v.Shown += ", ClusterQueue " + name
	v.Closed = closedLocal(queue, name, local.Status.Conditions)
	v.Hint = "ask your administrators, or choose another queue with the label " + k.Info().QueueLabel + " in labels"
	cluster, err := read[clusterQueue](ctx, c.Resource(k.resource("clusterqueues")), name)
	switch {
	case apierrors.IsForbidden(err):
		v.Unread = []string{"clusterqueues." + k.Info().Group}
		return v, nil
	case apierrors.IsNotFound(err):
		v.Closed = fmt.Sprintf("ClusterQueue %s of LocalQueue %s does not exist", name, queue)
		return v, nil
	case err != nil:
		return v, err
	}
	v.Closed = cmp.Or(closedCluster(name, cluster.Status.Conditions), v.Closed, cluster.excludes(ctx, c, name, namespace))
	sets := podSetsOf(rc)
	v.Never, v.Closed = cluster.tooSmall(name, sets), cmp.Or(v.Closed, cluster.uncovered(name, sets))
	if v.Never != "" {
		v.Hint = "ask for less (replicas, cpus, memory or gpus of the groups), for a larger quota, or for another queue with the label " + k.Info().QueueLabel + " in labels"
	}
	return v, nil
}

func read[T any](ctx context.Context, c dynamic.ResourceInterface, name string) (*T, error) {
	object, err := c.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	out := new(T)
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, out)
}

// active is the condition of queues that says whether they admit; nil: Kueue has not looked at the queue.
func active(conditions []metav1.Condition) *metav1.Condition {
	if i := slices.IndexFunc(conditions, func(c metav1.Condition) bool { return c.Type == "Active" }); i >= 0 {
		return &conditions[i]
	}
	return nil
}

// closedLocal is why a LocalQueue admits nothing, by its condition (kueue 0.17, pkg/controller/core/localqueue_controller.go).
func closedLocal(queue, cluster string, conditions []metav1.Condition) string {
	switch c := active(conditions); {
	case c == nil:
		return fmt.Sprintf("Kueue has not looked at LocalQueue %s: its controller does not run", queue)
	case c.Status == metav1.ConditionTrue:
		return ""
	case c.Reason == "Stopped":
		return fmt.Sprintf("LocalQueue %s is stopped", queue)
	case c.Reason == "ClusterQueueDoesNotExist":
		return fmt.Sprintf("ClusterQueue %s of LocalQueue %s does not exist", cluster, queue)
	case c.Reason == "ClusterQueueIsInactive":
		return fmt.Sprintf("ClusterQueue %s of LocalQueue %s is inactive", cluster, queue)
	default:
		return fmt.Sprintf("LocalQueue %s is inactive: %s", queue, c.Message)
	}
}

func closedCluster(name string, conditions []metav1.Condition) string {
	if c := active(conditions); c != nil && c.Status != metav1.ConditionTrue {
		return fmt.Sprintf("ClusterQueue %s is inactive: %s", name, strings.TrimSuffix(c.Message, "."))
	}
	return ""
}

// excludes is said where the ClusterQueue does not select the namespace. Who may not read the namespace is not told.
func (q *clusterQueue) excludes(ctx context.Context, c dynamic.Interface, name, namespace string) string {
	selector, err := metav1.LabelSelectorAsSelector(q.Spec.NamespaceSelector)
	if err != nil || selector.Empty() {
		return ""
	}
	ns, err := c.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")).Get(ctx, namespace, metav1.GetOptions{})
	if err != nil || selector.Matches(labels.Set(ns.GetLabels())) {
		return ""
	}
	return fmt.Sprintf("ClusterQueue %s does not admit namespace %s (namespaceSelector)", name, namespace)
}

// podSet are pods that Kueue admits with one flavor of each of their resources.
type podSet struct {
	name  string
	needs corev1.ResourceList
}

func podSetsOf(rc *rayv1.RayCluster) []podSet {
	of := func(name string, pod corev1.PodSpec, n int) podSet {
		needs := corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(int64(n), resource.DecimalSI)}
		add(needs, pod, int32(n))
		return podSet{name, needs}
	}
	out := []podSet{of("the head", rc.Spec.HeadGroupSpec.Template.Spec, 1)}
	for i := range rc.Spec.WorkerGroupSpecs {
		g := &rc.Spec.WorkerGroupSpecs[i]
		n, _ := Pods(g)
		out = append(out, of("group "+g.GroupName, g.Template.Spec, n))
	}
	return out
}

// tooSmall is which group, or all of them together, the quotas never have room for, with the numbers; "": they may. In a cohort a queue without a borrowing limit has no
// ceiling that is known here.
func (q *clusterQueue) tooSmall(name string, sets []podSet) string {
	for _, g := range q.Spec.ResourceGroups {
		for _, set := range sets {
			if why := q.refuses(g, set); why != "" {
				return fmt.Sprintf("%s, and ClusterQueue %s has at most %s", why, name, q.ceilings(g, set))
			}
		}
		for _, r := range g.CoveredResources {
			needs, most, bounded := sumOf(sets, r), resource.Quantity{}, true
			for _, f := range g.Flavors {
				ceiling := q.ceiling(f, r)
				if bounded = bounded && ceiling != nil; bounded {
					most.Add(*ceiling)
				}
			}
			if bounded && needs.Cmp(most) > 0 {
				return fmt.Sprintf("the cluster needs %s %s, and ClusterQueue %s has at most %s in all", needs.String(), r, name, most.String())
			}
		}
	}
	return ""
}

// refuses is what of a set no flavor of a resource group has room for, even if all of it is free.
func (q *clusterQueue) refuses(g resourceGroup, set podSet) string {
	var asked []string
	for _, r := range g.CoveredResources {
		if needs := set.needs[r]; !needs.IsZero() {
			asked = append(asked, fmt.Sprintf("%s %s", needs.String(), r))
			if !slices.ContainsFunc(g.Flavors, func(f flavor) bool { return q.has(f, set, r) }) {
				return fmt.Sprintf("%s needs %s %s", set.name, needs.String(), r)
			}
		}
	}
	if len(asked) == 0 || slices.ContainsFunc(g.Flavors, func(f flavor) bool { return q.has(f, set, g.CoveredResources...) }) {
		return ""
	}
	return fmt.Sprintf("%s needs %s of one flavor", set.name, strings.Join(asked, " and "))
}

// has reports whether a flavor has room for resources of a set, if all of it is free.
func (q *clusterQueue) has(f flavor, set podSet, resources ...corev1.ResourceName) bool {
	return !slices.ContainsFunc(resources, func(r corev1.ResourceName) bool {
		needs, most := set.needs[r], q.ceiling(f, r)
		return most != nil && needs.Cmp(*most) > 0
	})
}

// ceiling is the most that the queue can ever have of a flavor's resource; nil: it may borrow without a limit of its own.
func (q *clusterQueue) ceiling(f flavor, r corev1.ResourceName) *resource.Quantity {
	for _, quota := range f.Resources {
		if quota.Name != r {
			continue
		}
		most := quota.NominalQuota.DeepCopy()
		switch {
		case cmp.Or(q.Spec.CohortName, q.Spec.Cohort) == "":
		case quota.BorrowingLimit == nil:
			return nil
		default:
			most.Add(*quota.BorrowingLimit)
		}
		return &most
	}
	return &resource.Quantity{}
}

// ceilings are the most of what a set asks of a resource group, of each flavor: "8 nvidia.com/gpu in flavor h100, 4 in flavor a100".
func (q *clusterQueue) ceilings(g resourceGroup, set podSet) string {
	var all []string
	for _, f := range g.Flavors {
		var of []string
		for _, r := range g.CoveredResources {
			if most := q.ceiling(f, r); !q.has(f, set, r) {
				of = append(of, fmt.Sprintf("%s %s", most.String(), r))
			}
		}
		all = append(all, strings.Join(of, " and ")+" in flavor "+f.Name)
	}
	return strings.Join(all, ", ")
}

// uncovered is a resource that the queue has no quota of at all. Kueue then admits nothing that asks for it, unless its configuration leaves the resource out.
func (q *clusterQueue) uncovered(name string, sets []podSet) string {
	for _, set := range sets {
		for r, needs := range set.needs {
			if r != corev1.ResourcePods && !needs.IsZero() && !slices.ContainsFunc(q.Spec.ResourceGroups, func(g resourceGroup) bool { return slices.Contains(g.CoveredResources, r) }) {
				return fmt.Sprintf("ClusterQueue %s has no quota of %s, of which %s needs %s", name, r, set.name, needs.String())
			}
		}
	}
	return ""
}

func sumOf(sets []podSet, r corev1.ResourceName) (sum resource.Quantity) {
	for _, set := range sets {
		sum.Add(set.needs[r])
	}
	return sum
}

// What Kueue says of a flavor that does not help, however much of it is free (kueue 0.17, pkg/scheduler/flavorassigner/flavorassigner.go): a request is beyond its whole
// quota with all that may be borrowed, or the pods do not go to its nodes.
var (
	beyond  = regexp.MustCompile(`insufficient quota for (\S+) in flavor (\S+), previously considered podsets requests \([^)]*\) \+ current podset request \(([^)]*)\) > maximum capacity \(([^)]*)\)`)
	noNodes = regexp.MustCompile(`flavor (\S+) doesn't match node affinity|untolerated taint .*? in flavor ([^\s,;]+)`)
)

// never reports whether Kueue's message means that the queue never admits the workload as the queue is now: of a set of pods the message has, for a resource, each flavor
// that the LocalQueue shows. Kueue may have looked at only some of them.
func (k Kueue) never(ctx context.Context, c dynamic.Interface, workload *unstructured.Unstructured, message string) bool {
	if strings.Contains(message, "unavailable in ClusterQueue") {
		return true
	}
	if !beyond.MatchString(message) && !noNodes.MatchString(message) {
		return false
	}
	queue, _, _ := unstructured.NestedString(workload.Object, "spec", "queueName")
	local, err := read[localQueue](ctx, c.Resource(k.resource("localqueues")).Namespace(workload.GetNamespace()), queue)
	return err == nil && slices.ContainsFunc(strings.Split(message, "couldn't assign flavors to pod set "), local.refusedByAll)
}

// refusedByAll reports whether Kueue's words about a set of pods name, for a resource, every flavor that has it.
func (l *localQueue) refusedByAll(words string) bool {
	flavors, refused := l.flavors(), map[string]map[string]bool{}
	for r := range flavors {
		refused[r] = map[string]bool{}
		for _, m := range noNodes.FindAllStringSubmatch(words, -1) {
			refused[r][cmp.Or(m[1], m[2])] = true
		}
	}
	for _, m := range beyond.FindAllStringSubmatch(words, -1) {
		if r := m[1]; refused[r] != nil && (len(flavors[r]) == 1 || more(m[3], m[4])) { // else other sets may go to other flavors
			refused[r][m[2]] = true
		}
	}
	for r, all := range flavors {
		if !slices.ContainsFunc(all, func(flavor string) bool { return !refused[r][flavor] }) {
			return true
		}
	}
	return false
}

// flavors are those that have a resource, by resource.
func (l *localQueue) flavors() map[string][]string {
	out := map[string][]string{}
	for _, f := range l.Status.FlavorsReservation {
		for _, r := range f.Resources {
			out[r.Name] = append(out[r.Name], f.Name)
		}
	}
	return out
}

func more(needs, most string) bool {
	a, errA := resource.ParseQuantity(needs)
	b, errB := resource.ParseQuantity(most)
	return errA == nil && errB == nil && a.Cmp(b) > 0
}
