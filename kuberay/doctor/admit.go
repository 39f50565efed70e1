package doctor

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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// checkObjects lets the API server judge what a launch creates, by dry runs: schema, admission policies, webhooks, quotas of objects.
func checkObjects(ctx context.Context, c *api.Client, p *objects.Plan) launcher.Check {
	check := launcher.Check{Name: "objects"}
	kinds, err := c.DryRun(ctx, p)
	if err != nil {
		return failed(check.Name, err)
	}
	check.OK, check.Detail = true, "Kubernetes would accept "+strings.Join(kinds, ", ")
	return check
}

// checkQuota compares what the cluster as a whole takes with the quotas of the namespace, if they may be read.
func checkQuota(ctx context.Context, c *api.Client, p *objects.Plan) launcher.Check {
	check := launcher.Check{Name: "quota", OK: true}
	quotas, err := c.Core.CoreV1().ResourceQuotas(c.Namespace).List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		check.Detail = "not checked: you may not list quotas"
		return check
	case err != nil:
		return failed(check.Name, api.Explain(err, "list", "resourcequotas", c))
	case len(quotas.Items) == 0:
		check.Detail = "the namespace has none"
		return check
	}
	rc, err := p.RayCluster()
	if err != nil {
		return failed(check.Name, err)
	}
	whole := groupsOf(rc)
	if kuberayspec.Of(p.Spec).Keeper != objects.KeeperNone {
		whole = append(whole, observe.Wanted{N: 2, Pod: p.KeeperJob().Spec.Template.Spec}) // the record's pod is alike
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
				r := observe.RefusedPod{Part: "the groups", File: observe.WorkersOf}
				return launcher.Check{Name: check.Name, Hint: r.Answer(observe.KeysFor(string(name), name == corev1.ResourceLimitsCPU), "or ask for a larger quota "+q.Name),
					Detail: fmt.Sprintf("the cluster needs %s of %s, and quota %s allows %s in all", needs.String(), name, q.Name, hard.String())}
			case needs.Cmp(free) > 0:
				tight = append(tight, fmt.Sprintf("it would wait now for %s: quota %s has %s free of %s, and it needs %s", name, q.Name, free.String(), hard.String(), needs.String()))
			}
		}
	}
	check.Detail = cmp.Or(strings.Join(tight, "; "), "the quotas have room for the cluster")
	return check
}

// checkQueue looks at the queue that the RayCluster would wait in, and whether the user may read why it waits there.
func checkQueue(ctx context.Context, c *api.Client, p *objects.Plan, by admit.Info) launcher.Check {
	check := launcher.Check{Name: "queue"}
	v, err := c.JudgeQueue(ctx, p)
	if err != nil {
		return failed(check.Name, err)
	}
	check.OK, check.Hint = v.Never == "" && v.Closed == "", v.Hint
	var said []string
	for _, s := range []string{v.Never, v.Closed} {
		if s != "" {
			said = append(said, s)
		}
	}
	if check.OK {
		said = []string{fmt.Sprintf("%s: %s", by.Title, v.Shown)}
		if len(v.Unread) == 0 {
			said[0] += ", is active, and its quota has room for the cluster when nothing else uses it"
		}
	}
	for _, resource := range v.Unread {
		said = append(said, "not checked: you may not get "+resource)
	}
	may, err := allowed(ctx, c, permission{group: by.Requests.Group, resource: by.Requests.Resource}, "list", "")
	switch {
	case err != nil:
		return failed(check.Name, err)
	case !may:
		said = append(said, fmt.Sprintf("you may not list %s, so that nothing can say why the cluster waits", by.Requests.GroupResource()))
	}
	check.Detail = strings.Join(said, "; ")
	return check
}

// groupsOf are the pods that the start of a RayCluster waits for.
func groupsOf(rc *rayv1.RayCluster) []observe.Wanted {
	out := []observe.Wanted{{N: 1, Pod: rc.Spec.HeadGroupSpec.Template.Spec}}
	for i := range rc.Spec.WorkerGroupSpecs {
		out = append(out, observe.Wanted{N: objects.NeededOf(rc, i), Pod: rc.Spec.WorkerGroupSpecs[i].Template.Spec})
	}
	return out
}

func need(pods []observe.Wanted, name string) (sum resource.Quantity) {
	for _, w := range pods {
		q := observe.Usage(w.Pod, name)
		q.Mul(int64(w.N))
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
		labels = objects.Merged(labels, m.Labels)
		for _, name := range []string{objects.LabelManagedBy, objects.LabelName, objects.LabelOwner} {
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
		one := ptr.To(min(1, int32(objects.NeededOf(rc, i))))
		g.Replicas, g.MinReplicas, g.MaxReplicas = one, one, ptr.To(max(1, ptr.Deref(g.MaxReplicas, 1)))
		gate(&g.Template)
	}
	return out
}

// letIn judges from the status of a gated RayCluster whether its pods were made. held: it was suspended when it was created, which a queueing system may have
// ended by now.
func letIn(whole, seen *rayv1.RayCluster, held bool) launcher.Check {
	check := launcher.Check{Name: "pods of the cluster", OK: true, Detail: "KubeRay may make one of each group"}
	o := &observe.Snapshot{Cluster: whole.DeepCopy()}
	o.Cluster.Name, o.Cluster.Status = seen.Name, seen.Status
	r := o.RefusedPods()
	switch {
	case r.Code == observe.QuotaFull:
		check.Detail = r.Message + ": " + r.Hint
	case r.Code != "":
		check.OK, check.Detail, check.Hint = false, r.Message, r.Hint
	case held && objects.HasEarlyHead(whole):
		_, by := admit.QueueOf(seen)
		r = observe.HeadHeld(seen.Namespace, by)
		check.OK, check.Detail, check.Hint = false, r.Message, r.Hint
	case ptr.Deref(seen.Spec.Suspend, false):
		check.Detail = "not checked, because a queueing system holds the RayCluster"
	}
	return check
}

// tryGang creates a gang object without resources and waits until the gang's scheduler has set its status.
func tryGang(ctx context.Context, c *api.Client, p *objects.Plan, prober admit.Prober, m metav1.ObjectMeta) launcher.Check {
	check := launcher.Check{Name: prober.Info().Title, Hint: "check that its scheduler runs, for example with `kubectl get pods -A`; gangs wait until it runs"}
	queue := p.Queue()
	probe := prober.Probe(m, queue, kuberayspec.Of(p.Spec).PriorityClassName)
	if err := c.CreateOnly(ctx, prober.Info().Objects, probe); err != nil {
		return failed(check.Name, err)
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, admit.ProbePatience)
	defer cancel()
	lw := c.WatchOne(ctx, prober.Info().Objects, probe.(metav1.Object).GetName())
	_, err := watchtools.UntilWithSync(ctx, lw, &unstructured.Unstructured{}, nil, func(event watch.Event) (bool, error) {
		seen, ok := event.Object.(*unstructured.Unstructured)
		return ok && prober.Seen(seen), nil
	})
	if err != nil {
		check.Detail = fmt.Sprintf("its scheduler did nothing with a %s in queue %s for %s: it does not run, or there is no such queue", probe.GetObjectKind().GroupVersionKind().Kind, queue, admit.ProbePatience)
		return check
	}
	check.OK, check.Detail = true, fmt.Sprintf("its scheduler works (after %.1f s)", time.Since(began).Seconds())
	return check
}

// refusedJob waits for an event of the Job controller that the Job's pod was refused. The reason is empty if ctx ends first.
func refusedJob(ctx context.Context, c *api.Client, name string, uid types.UID) runstate.Reason {
	var r runstate.Reason
	lw := api.WatchEvents(c.Core.CoreV1().RESTClient(), c.Namespace, name)
	_, _ = watchtools.UntilWithSync(ctx, lw, &corev1.Event{}, nil, func(event watch.Event) (bool, error) {
		e, ok := event.Object.(*corev1.Event)
		if ok && e.InvolvedObject.UID == uid && e.Reason == "FailedCreate" {
			r = observe.RefusedPod{Part: "the keeper", Needed: 1}.Explain(e.Message, e.Reason)
		}
		return r.Code != "", nil
	})
	return r
}
