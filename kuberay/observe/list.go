package observe

import (
	"cmp"
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// All is what Kubernetes shows, by cluster. whole: with gangs and events, which have reasons. It is false without sel.Whole, and for users who may not list them.
func All(ctx context.Context, c *api.Client, sel launcher.Selector) (all map[string]*Snapshot, whole bool, err error) {
	all = map[string]*Snapshot{}
	now := time.Now().UTC()
	of := func(name string) *Snapshot {
		if all[name] == nil {
			all[name] = &Snapshot{Now: now}
		}
		return all[name]
	}
	ours := metav1.ListOptions{LabelSelector: objects.LabelManagedBy + "=" + objects.ManagedBy}
	jobs, err := c.Core.BatchV1().Jobs(c.Namespace).List(ctx, ours)
	if err != nil {
		return nil, false, api.Explain(err, "list", "jobs.batch", c)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if o := of(job.Labels[objects.LabelName]); job.Labels[objects.LabelRole] == objects.RoleRecord {
			o.Record = job
		} else {
			o.Job = job
		}
	}
	others := ours
	if sel.Others {
		others = metav1.ListOptions{}
	}
	clusters, err := c.Dynamic.Resource(api.RayClusters).Namespace(c.Namespace).List(ctx, others)
	if err != nil {
		return nil, false, api.Explain(err, "list", api.RayClusters.GroupResource().String(), c)
	}
	for i := range clusters.Items {
		if rc, ok := api.As[rayv1.RayCluster](&clusters.Items[i]); ok {
			of(rc.Name).Cluster = rc
		}
	}
	pods, err := c.Core.CoreV1().Pods(c.Namespace).List(ctx, others)
	if err != nil {
		return nil, false, api.Explain(err, "list", "pods", c)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if name := cmp.Or(p.Labels[objects.LabelName], p.Labels[objects.RayClusterLabel]); all[name] != nil {
			all[name].Pods = append(all[name].Pods, p)
		}
	}
	if !sel.Whole {
		return all, false, nil
	}
	err = addReasons(ctx, c, all)
	if launcher.ExitCode(err) == runstate.CodePermission {
		return all, false, nil
	}
	return all, err == nil, err
}

// addReasons adds what NewCache reads beside Jobs, RayClusters and pods: gangs and events, which have the reasons. It makes as many requests for one cluster as
// for many.
func addReasons(ctx context.Context, c *api.Client, all map[string]*Snapshot) error {
	var events [2][]corev1.Event
	served := c.Served.Admitters.Gangs()
	gangs := make([]map[string]*unstructured.Unstructured, len(served)) // by the object's name
	reading, ctx := errgroup.WithContext(ctx)
	for i, selector := range []fields.Selector{fields.OneTermNotEqualSelector("involvedObject.kind", "Pod"), api.PodEvents(usualEvents...)} {
		reading.Go(func() (err error) {
			events[i], err = c.Events(ctx, selector)
			return err
		})
	}
	var waiting []metav1.Object
	for _, o := range all {
		waiting = append(waiting, o.inQueues()...)
	}
	var why map[types.UID]admit.Held
	if len(waiting) > 0 {
		reading.Go(func() error {
			why = c.WhyHeld(ctx, waiting)
			return nil
		})
	}
	for i, g := range served {
		reading.Go(func() (err error) {
			gangs[i], err = c.Gangs(ctx, g.Info().Objects)
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return err
	}
	var every []*corev1.Event
	for i := range events {
		for j := range events[i] {
			every = append(every, &events[i][j])
		}
	}
	for name, o := range all {
		o.events, o.inQueue = every, why // both are found by an object's UID
		for i, g := range served {
			if object := gangs[i][g.Info().ObjectOf(name)]; object != nil {
				o.gang = object
			}
		}
	}
	return nil
}

// SameOwner reports whether clusters of these owners, USER@HOST, belong to one person: to a user, from any machine. root is somebody else in each
// container, and is the same only on the same machine. Clusters without an owner are everybody's.
func SameOwner(x, y string) bool {
	userX, _, _ := strings.Cut(x, "@")
	userY, _, _ := strings.Cut(y, "@")
	return x == "" || y == "" || x == y || userX == userY && userX != "root"
}
