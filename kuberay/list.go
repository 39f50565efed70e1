package kuberay

import (
	"cmp"
	"context"
	"slices"
	"time"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// List asks for Jobs, RayClusters and pods of the namespace: three requests, however many clusters there are. What only a keeper
// knows (the job's state) is not in it.
func (l *Launcher) List(ctx context.Context, sel launcher.Selector) ([]launcher.Status, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	all, err := c.everything(ctx, sel)
	if err != nil {
		return nil, err
	}
	var out []launcher.Status
	for name, o := range all {
		if len(sel.Names) > 0 && !slices.Contains(sel.Names, name) {
			continue
		}
		var s launcher.Status
		if o.gone() {
			s = finalStatus(launcher.ID(name), c.namespace, o, recordedBy(o))
		} else {
			s = livingStatus(launcher.ID(name), c.namespace, o, nil, "")
		}
		if matches(s, sel) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b launcher.Status) int { return a.Created.Compare(b.Created) })
	return out, nil
}

func matches(s launcher.Status, sel launcher.Selector) bool {
	abandoned := s.Phase.Ended() && s.Exit != nil && s.Exit.Cause == runstate.CauseAbandoned // as if it had never been
	return (s.Ours || sel.Others) && !abandoned && sel.Matches(s)
}

// everything is what Kubernetes shows, by cluster.
func (c *client) everything(ctx context.Context, sel launcher.Selector) (map[string]*snapshot, error) {
	all, now := map[string]*snapshot{}, time.Now().UTC()
	of := func(name string) *snapshot {
		if all[name] == nil {
			all[name] = &snapshot{now: now}
		}
		return all[name]
	}
	ours := metav1.ListOptions{LabelSelector: labelManagedBy + "=" + managedBy}
	jobs, err := c.core.BatchV1().Jobs(c.namespace).List(ctx, ours)
	if err != nil {
		return nil, explain(err, "list", "jobs.batch", c)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if o := of(job.Labels[labelName]); job.Labels[labelRole] == roleRecord {
			o.record = job
		} else {
			o.job = job
		}
	}
	others := ours
	if sel.Others {
		others = metav1.ListOptions{}
	}
	clusters, err := c.dynamic.Resource(rayClusters).Namespace(c.namespace).List(ctx, others)
	if err != nil {
		return nil, explain(err, "list", rayClusters.GroupResource().String(), c)
	}
	for i := range clusters.Items {
		if rc, ok := as[rayv1.RayCluster](&clusters.Items[i]); ok {
			of(rc.Name).cluster = rc
		}
	}
	pods, err := c.core.CoreV1().Pods(c.namespace).List(ctx, others)
	if err != nil {
		return nil, explain(err, "list", "pods", c)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if name := cmp.Or(p.Labels[labelName], p.Labels[rayClusterLabel]); all[name] != nil {
			all[name].pods = append(all[name].pods, p)
		}
	}
	return all, nil
}
