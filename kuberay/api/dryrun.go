package api

import (
	"context"
	"slices"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rayctl/rayctl/kuberay/objects"
)

// dry is a client whose creations are dry runs.
func (c *Client) dry() *Client {
	dry := *c
	dry.dryRun = []string{metav1.DryRunAll}
	return &dry
}

// DryRun creates by dry runs what a launch creates, and returns the kinds.
func (c *Client) DryRun(ctx context.Context, p *objects.Plan) (kinds []string, err error) {
	dry := c.dry()
	all, err := p.Objects()
	if err != nil {
		return nil, err
	}
	resources := map[string]schema.GroupVersionResource{"Job": Jobs, "Secret": Secrets, "Service": Services, "ConfigMap": configMaps}
	for _, o := range all {
		if o.Object == nil {
			continue
		}
		kind := o.Object.GetObjectKind().GroupVersionKind().Kind
		rc, isCluster := o.Object.(*rayv1.RayCluster)
		_, known := resources[kind]
		switch {
		case isCluster:
			_, err = dry.CreateRayCluster(ctx, rc.DeepCopy(), p.Newer())
		case known:
			err = dry.CreateOnly(ctx, resources[kind], o.Object)
		default: // what holds the pods together
			o.Object.(metav1.Object).SetOwnerReferences(nil) // the RayCluster has no UID
			err = dry.CreateOnly(ctx, p.Admitter.Info().Objects, o.Object)
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
