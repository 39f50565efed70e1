package api

import (
	"context"
	"encoding/json"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// CreateGang creates what holds a RayCluster's pods together, if its scheduler has such a thing.
func (c *Client) CreateGang(ctx context.Context, p *objects.Plan, rc *rayv1.RayCluster) error {
	object := p.Admitter.Object(rc)
	if object == nil {
		return nil
	}
	_, err := c.Create(ctx, p.Admitter.Info().Objects, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if !ptr.Deref(rc.Spec.EnableInTreeAutoscaling, false) {
		return nil // KubeRay's own plug-in was faster with the same
	}
	return c.completeGang(ctx, p, object)
}

// completeGang gives the object of an elastic cluster that KubeRay's own plug-in has made the least of each group. Who may not patch has its sum alone.
func (c *Client) completeGang(ctx context.Context, p *objects.Plan, object runtime.Object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"spec": fields["spec"]})
	if err != nil {
		return err
	}
	name := p.Admitter.Info().ObjectOf(p.Spec.Name)
	_, err = c.Dynamic.Resource(p.Admitter.Info().Objects).Namespace(c.Namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: objects.ManagedBy})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return Explain(err, "patch", p.Admitter.Info().Objects.GroupResource().String(), c)
}

// RequireQueue refuses a launch into a queue that does not exist, of which the scheduler itself reports nothing, or that never has room for it. A user who may not read
// queues, of which some are cluster-scoped, is not refused here: the launch waits.
func (c *Client) RequireQueue(ctx context.Context, p *objects.Plan) error {
	if p.ClusterHeld {
		if v, err := c.JudgeQueue(ctx, p); err == nil && v.Never != "" {
			return launcher.Fail(runstate.CodeStartFailed, nil, v.Hint, "%s cannot start: %s", p.Spec.Name, v.Never)
		}
		return nil
	}
	name := p.Queue()
	if name == "" {
		return nil
	}
	_, err := p.Admitter.Info().QueueState(ctx, c.Dynamic, name)
	if apierrors.IsNotFound(err) {
		return launcher.Fail(runstate.CodeStartFailed, err, "change kuberay.queue to one that `kubectl get queues."+p.Admitter.Info().Queues.Group+"` lists", "%s cannot start: %s has no queue %s", p.Spec.Name, p.Admitter.Info().Title, name)
	}
	return nil
}

// Gangs reads the objects of the namespace that hold pods together, by their names.
func (c *Client) Gangs(ctx context.Context, resource schema.GroupVersionResource) (map[string]*unstructured.Unstructured, error) {
	list, err := c.Dynamic.Resource(resource).Namespace(c.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, Explain(err, "list", resource.GroupResource().String(), c)
	}
	byName := map[string]*unstructured.Unstructured{}
	for i := range list.Items {
		byName[list.Items[i].GetName()] = &list.Items[i]
	}
	return byName, nil
}
