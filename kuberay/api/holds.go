package api

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
)

// Holds finds out whether something would suspend the RayCluster and the Jobs of a plan until it admits them. Only its own webhooks know which objects they suspend,
// and which queue they give them, also in a dry run. An object that is refused is not held: its creation reports why.
func (c *Client) Holds(ctx context.Context, p *objects.Plan) (h objects.Holds) {
	suspenders := c.Served.Admitters.Suspenders()
	if len(suspenders) == 0 {
		return h
	}
	h.By = suspenders[0]
	if rc, err := p.RayCluster(); err == nil && !ptr.Deref(rc.Spec.Suspend, false) {
		rc.Name, rc.GenerateName = "", rc.Name+"-"
		created, err := c.dry().CreateRayCluster(ctx, rc, p.Newer())
		if _, own := rc.Annotations[h.By.Resizable]; err != nil && !own && h.By.Resizable != "" && ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
			rc.Annotations[h.By.Resizable] = "true"
			created, err = c.dry().CreateRayCluster(ctx, rc, p.Newer())
			h.Resizable = err == nil
		}
		h.Cluster = holdOf(created, err)
	}
	if kuberayspec.Of(p.Spec).Keeper != objects.KeeperNone {
		job := objects.Provisional(p.KeeperJob())
		job.Name, job.GenerateName, job.Spec.Suspend = "", job.Name+"-", ptr.To(false)
		created, err := c.dry().Create(ctx, Jobs, job)
		h.Jobs = holdOf(created, err)
	}
	return h
}

func holdOf(created *unstructured.Unstructured, err error) (h objects.Hold) {
	if err != nil {
		return h
	}
	h.Held, _, _ = unstructured.NestedBool(created.Object, "spec", "suspend")
	h.Queue, _ = admit.QueueOf(created)
	return h
}

// AwaitFree waits until nothing is left of a Secret that an earlier cluster of the name had.
func (c *Client) AwaitFree(ctx context.Context, secret interface {
	runtime.Object
	metav1.Object
}, cluster string) error {
	return c.dry().CreateOwn(ctx, Secrets, secret, cluster)
}

// WhyHeld reads why objects wait in queues, by their UIDs, as the admitters' own objects say, or that the user may not read that.
func (c *Client) WhyHeld(ctx context.Context, objects []metav1.Object) map[types.UID]admit.Held {
	why := map[types.UID]admit.Held{}
	for _, q := range c.Served.Admitters.Queuers() {
		i := q.Info()
		list, err := c.Dynamic.Resource(i.Requests).Namespace(c.Namespace).List(ctx, metav1.ListOptions{LabelSelector: oneOf(i.RequestLabel, objects)})
		if apierrors.IsForbidden(err) {
			for _, object := range objects {
				why[object.GetUID()] = admit.Held{Why: "you may not list " + i.Requests.GroupResource().String() + ", which say why", Unread: true}
			}
		}
		if err != nil {
			continue
		}
		for n := range list.Items {
			request := &list.Items[n]
			if said := q.Held(ctx, c.Dynamic, request); said != (admit.Held{}) {
				why[types.UID(request.GetLabels()[i.RequestLabel])] = said
			}
		}
	}
	return why
}

// JudgeQueue looks at the queue that a plan's RayCluster is to wait in.
func (c *Client) JudgeQueue(ctx context.Context, p *objects.Plan) (v admit.Verdict, err error) {
	rc, err := p.RayCluster()
	if err != nil {
		return v, err
	}
	for _, q := range c.Served.Admitters.Queuers() {
		if v, err = q.Judge(ctx, c.Dynamic, c.Namespace, p.HeldIn, rc); err != nil {
			return v, Explain(err, "get", "queues of "+q.Info().Title, c)
		}
	}
	return v, nil
}

// oneOf selects what is labelled with the UID of one of some objects, or of many with any: a URL holds only some.
func oneOf(label string, objects []metav1.Object) string {
	const most = 50
	if len(objects) > most {
		return label
	}
	uids := make([]string, len(objects))
	for n, object := range objects {
		uids[n] = string(object.GetUID())
	}
	return label + " in (" + strings.Join(uids, ",") + ")"
}
