package kuberay

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/gang"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// checkObjects lets the API server judge what a launch creates, by dry runs: schema, admission policies, webhooks, quotas of objects.
func (c *client) checkObjects(ctx context.Context, p *plan) launcher.Check {
	check := launcher.Check{Name: "objects"}
	kinds, err := c.tryObjects(ctx, p)
	if err != nil {
		return failed(check.Name, err)
	}
	check.OK, check.Detail = true, "Kubernetes would take "+strings.Join(kinds, ", ")
	return check
}

// tryObjects creates by dry runs what a launch creates, and returns the kinds.
func (c *client) tryObjects(ctx context.Context, p *plan) (kinds []string, err error) {
	dry := *c
	dry.dryRun = []string{metav1.DryRunAll}
	objects, err := p.objects()
	if err != nil {
		return nil, err
	}
	resources := map[string]schema.GroupVersionResource{"Job": jobs, "Secret": secrets, "Service": services, "ConfigMap": configMaps}
	for _, o := range objects {
		if o.object == nil {
			continue
		}
		kind := o.object.GetObjectKind().GroupVersionKind().Kind
		rc, isCluster := o.object.(*rayv1.RayCluster)
		_, known := resources[kind]
		switch {
		case isCluster:
			_, err = dry.createRayCluster(ctx, rc.DeepCopy())
		case known:
			err = dry.createOnly(ctx, resources[kind], o.object)
		default: // what holds the pods together
			o.object.(metav1.Object).SetOwnerReferences(nil) // the RayCluster has no UID
			err = dry.createOnly(ctx, p.scheduler.Resource(), o.object)
		}
		if err != nil && !apierrors.IsAlreadyExists(err) { // a ConfigMap of the file's may be there
			return nil, err
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return kinds, nil
}

// checkQuota compares what the cluster as a whole takes with the quotas of the namespace, if they may be read.
func (c *client) checkQuota(ctx context.Context, p *plan) launcher.Check {
	check := launcher.Check{Name: "quota", OK: true}
	quotas, err := c.core.CoreV1().ResourceQuotas(c.namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		check.Detail = "quotas may not be looked at"
		return check
	case err != nil:
		return failed(check.Name, explain(err, "list", "resourcequotas", c))
	case len(quotas.Items) == 0:
		check.Detail = "the namespace has none"
		return check
	}
	rc, err := p.rayCluster()
	if err != nil {
		return failed(check.Name, err)
	}
	whole := groupsOf(rc)
	if p.spec.KubeRay.Keeper != keeperNone {
		whole = append(whole, wanted{2, p.keeperJob().Spec.Template.Spec}) // the record's pod is alike
	}
	var tight []string
	for _, q := range quotas.Items {
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			continue // it counts some pods only; that is seen when pods are tried
		}
		for _, name := range slices.Sorted(maps.Keys(q.Status.Hard)) {
			needs, hard, used := need(whole, string(name)), q.Status.Hard[name], q.Status.Used[name]
			free := hard.DeepCopy()
			free.Sub(used)
			switch {
			case needs.Cmp(hard) > 0:
				r := refusedPod{part: "the groups", file: workersOf}
				return launcher.Check{Name: check.Name, Hint: r.answer(keysFor(string(name), name == corev1.ResourceLimitsCPU), "or ask for a larger quota "+q.Name),
					Detail: fmt.Sprintf("the cluster needs %s of %s, and quota %s allows %s in all", needs.String(), name, q.Name, hard.String())}
			case needs.Cmp(free) > 0:
				tight = append(tight, fmt.Sprintf("it would wait now for %s: quota %s has %s free of %s, and it needs %s", name, q.Name, free.String(), hard.String(), needs.String()))
			}
		}
	}
	check.Detail = cmp.Or(strings.Join(tight, "; "), "the cluster fits into what is free")
	return check
}

// groupsOf are the pods that the start of a RayCluster waits for.
func groupsOf(rc *rayv1.RayCluster) []wanted {
	out := []wanted{{1, rc.Spec.HeadGroupSpec.Template.Spec}}
	for i := range rc.Spec.WorkerGroupSpecs {
		out = append(out, wanted{neededOf(rc, i), rc.Spec.WorkerGroupSpecs[i].Template.Spec})
	}
	return out
}

func need(pods []wanted, name string) (sum resource.Quantity) {
	for _, w := range pods {
		q := usage(w.pod, name)
		q.Mul(int64(w.n))
		sum.Add(q)
	}
	return sum
}

// gated is the RayCluster of the plan with one pod of each group, none of which any scheduler may place: KubeRay makes the pods, with all that it
// adds to them, and quota, LimitRange, Pod Security and policies see them, but nothing runs.
func gated(rc *rayv1.RayCluster, m metav1.ObjectMeta) *rayv1.RayCluster {
	out := rc.DeepCopy()
	out.Name, out.OwnerReferences = m.Name, m.OwnerReferences
	strip := func(labels map[string]string) map[string]string { // doctor's cluster is nobody's: `ls` shows it only among others'
		labels = merged(labels, m.Labels)
		for _, name := range []string{labelManagedBy, labelName, labelOwner} {
			delete(labels, name)
		}
		return labels
	}
	gate := func(t *corev1.PodTemplateSpec) {
		t.Labels = strip(t.Labels)
		t.Spec.SchedulingGates = append(t.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: labelDoctor})
	}
	out.Labels = strip(out.Labels)
	gate(&out.Spec.HeadGroupSpec.Template)
	for i := range out.Spec.WorkerGroupSpecs {
		g := &out.Spec.WorkerGroupSpecs[i]
		one := ptr.To(min(1, int32(neededOf(rc, i))))
		g.Replicas, g.MinReplicas, g.MaxReplicas = one, one, ptr.To(max(1, ptr.Deref(g.MaxReplicas, 1)))
		gate(&g.Template)
	}
	return out
}

// letIn judges from the status of a gated RayCluster whether its pods were made.
func letIn(whole, seen *rayv1.RayCluster) launcher.Check {
	check := launcher.Check{Name: "pods of the cluster", OK: true, Detail: "KubeRay may make one of each group"}
	o := &snapshot{cluster: whole.DeepCopy()}
	o.cluster.Name, o.cluster.Status = seen.Name, seen.Status
	r := o.refusedPods()
	switch {
	case r.Code == quotaFull:
		check.Detail = r.Message + ": " + r.Hint
	case r.Code != "":
		check.OK, check.Detail, check.Hint = false, r.Message, r.Hint
	case ptr.Deref(seen.Spec.Suspend, false):
		check.Detail = "not tried, as a queueing system holds the RayCluster"
	}
	return check
}

// tryGang creates an object that asks for nothing, and waits until the gang's scheduler notes that it has seen it.
func (c *client) tryGang(ctx context.Context, p *plan, m metav1.ObjectMeta) launcher.Check {
	check := launcher.Check{Name: p.scheduler.Title(), Hint: "see whether its scheduler runs, such as with `kubectl get pods -A`; gangs wait until it does"}
	queue := p.queue()
	probe := p.scheduler.Probe(m, queue, p.spec.KubeRay.PriorityClassName)
	if err := c.createOnly(ctx, p.scheduler.Resource(), probe); err != nil {
		return failed(check.Name, err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, gang.ProbePatience)
	defer cancel()
	lw := c.one(ctx, p.scheduler.Resource(), probe.(metav1.Object).GetName())
	_, err := watchtools.UntilWithSync(ctx, lw, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		seen, ok := event.Object.(*unstructured.Unstructured)
		return ok && p.scheduler.Seen(seen), nil
	})
	if err != nil {
		check.Detail = fmt.Sprintf("its scheduler did nothing with a %s in queue %s for %s: it does not run, or there is no such queue", probe.GetObjectKind().GroupVersionKind().Kind, queue, gang.ProbePatience)
		return check
	}
	check.OK, check.Detail = true, fmt.Sprintf("its scheduler acts (after %.1f s)", time.Since(began).Seconds())
	return check
}

// refusedJob waits until the Job controller says that it may not make the Job's pod; "" if ctx ends first.
func (c *client) refusedJob(ctx context.Context, name string, uid types.UID) runstate.Reason {
	var r runstate.Reason
	lw := eventsOf(c.core.CoreV1().RESTClient(), c.namespace, name)
	_, _ = watchtools.UntilWithSync(ctx, lw, &corev1.Event{}, nil, func(event watch.Event) (bool, error) {
		e, ok := event.Object.(*corev1.Event)
		if ok && e.InvolvedObject.UID == uid && e.Reason == "FailedCreate" {
			r = refusedPod{part: "the keeper", needed: 1}.explain(e.Message, e.Reason)
		}
		return r.Code != "", nil
	})
	return r
}
