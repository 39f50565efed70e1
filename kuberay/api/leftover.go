package api

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// leftoverPatience is how long Kubernetes' garbage collector may take to delete what a deleted Job owned.
const leftoverPatience = 30 * time.Second

// CreateOwn creates an object of a cluster.
func (c *Client) CreateOwn(ctx context.Context, r schema.GroupVersionResource, object interface {
	runtime.Object
	metav1.Object
}, cluster string) error {
	return c.AfterLeftovers(ctx, r, object.GetName(), cluster, func() error { return c.CreateOnly(ctx, r, object) })
}

// AfterLeftovers creates an object of a cluster whose Job exists already. What an earlier cluster of the name had goes some time after its Job, and is
// waited for; whatever else has the object's name is somebody else's.
func (c *Client) AfterLeftovers(ctx context.Context, r schema.GroupVersionResource, name, cluster string, create func() error) error {
	wait, cancel := context.WithTimeout(ctx, leftoverPatience)
	defer cancel()
	for {
		err := create()
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		if !c.isLeftover(wait, r, name, cluster) || !sleep.For(wait, 200*time.Millisecond) {
			return foreign(kinds[r], name)
		}
	}
}

// kinds are how users call what a launch creates.
var kinds = map[schema.GroupVersionResource]string{Secrets: "Secret", Services: "Service", RayClusters: "RayCluster"}

func (c *Client) isLeftover(ctx context.Context, r schema.GroupVersionResource, name, cluster string) bool {
	o, err := c.Dynamic.Resource(r).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return apierrors.IsNotFound(err)
	}
	labels := o.GetLabels()
	return labels[objects.LabelManagedBy] == objects.ManagedBy && labels[objects.LabelName] == cluster
}

// CreatePackages creates the Secret of the packages, if there are any to keep.
func (c *Client) CreatePackages(ctx context.Context, p *objects.Plan) error {
	secret, err := p.PackagesSecret()
	if secret == nil || err != nil {
		return err
	}
	return c.CreateOwn(ctx, Secrets, secret, p.Spec.Name)
}
