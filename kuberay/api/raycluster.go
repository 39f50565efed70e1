package api

import (
	"context"
	"fmt"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/kuberay/manifest"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher"
)

// CreateRayCluster creates a RayCluster. more: fields of a newer KubeRay, to be added. If the API server's KubeRay is too old for authOptions, the pods get the token
// by environment variables instead.
func (c *Client) CreateRayCluster(ctx context.Context, rc *rayv1.RayCluster, more []manifest.NewerField) (*unstructured.Unstructured, error) {
	created, err := c.createWith(ctx, RayClusters, rc, more)
	if !lacksAuthOptions(err) || rc.Spec.AuthOptions.SecretName == nil {
		return created, err
	}
	objects.TokenByEnvironment(rc)
	return c.createWith(ctx, RayClusters, rc, more)
}

// lacksAuthOptions reports whether the API server refused spec.authOptions, because its CRD is of a KubeRay before 1.5. rayctl creates objects with strict validation,
// which makes an unknown field an error.
func lacksAuthOptions(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(cause(err), `unknown field "spec.authOptions`)
}

// GetCluster reads a RayCluster as it is.
func (c *Client) GetCluster(ctx context.Context, id launcher.ID) (*unstructured.Unstructured, error) {
	return c.Dynamic.Resource(RayClusters).Namespace(c.Namespace).Get(ctx, string(id), metav1.GetOptions{})
}

// DeleteCluster deletes a RayCluster with its pods. It is no error if the RayCluster is deleted already, or if another one has its name by now.
func (c *Client) DeleteCluster(ctx context.Context, id launcher.ID, uid types.UID) error {
	foreground := metav1.DeletePropagationForeground
	o := metav1.DeleteOptions{PropagationPolicy: &foreground, Preconditions: &metav1.Preconditions{UID: &uid}}
	err := c.Dynamic.Resource(RayClusters).Namespace(c.Namespace).Delete(ctx, string(id), o)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return Explain(err, "delete", RayClusters.GroupResource().String(), c)
}

// PatchCluster applies a JSON patch to a RayCluster. It returns Kubernetes' error unchanged.
func (c *Client) PatchCluster(ctx context.Context, id launcher.ID, patch []byte) error {
	_, err := c.Dynamic.Resource(RayClusters).Namespace(c.Namespace).Patch(ctx, string(id), types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: objects.ManagedBy})
	return err
}

// RayCluster reads a RayCluster, whoever made it.
func (c *Client) RayCluster(ctx context.Context, id launcher.ID) (*rayv1.RayCluster, error) {
	o, err := c.GetCluster(ctx, id)
	if apierrors.IsNotFound(err) {
		return nil, launcher.NotFound(id)
	}
	if err != nil {
		return nil, Explain(err, "get", RayClusters.GroupResource().String(), c)
	}
	rc, ok := As[rayv1.RayCluster](o)
	if !ok {
		return nil, fmt.Errorf("the RayCluster %s has fields that do not fit ray.io/v1: compare `kubectl get raycluster %[1]s -o yaml` with KubeRay's reference", id)
	}
	return rc, nil
}
