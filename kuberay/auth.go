package kuberay

import (
	"context"
	"strings"

	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
)

// authOptions make Ray check the cluster's token, which is in our Secret.
func (p *plan) authOptions() *rayv1.AuthOptions {
	return &rayv1.AuthOptions{Mode: rayv1.AuthModeToken, SecretName: ptr.To(secretName(p.spec.Name))}
}

// createRayCluster creates it as it is, or as an older KubeRay takes it.
func (c *client) createRayCluster(ctx context.Context, rc *rayv1.RayCluster) (*unstructured.Unstructured, error) {
	created, err := c.create(ctx, rayClusters, rc)
	if !lacksAuthOptions(err) || rc.Spec.AuthOptions.SecretName == nil {
		return created, err
	}
	tokenByEnvironment(rc)
	return c.create(ctx, rayClusters, rc)
}

// lacksAuthOptions: the CRD is of a KubeRay before 1.5. As objects are created with strict validation, it says so.
func lacksAuthOptions(err error) bool {
	return apierrors.IsBadRequest(err) && strings.Contains(cause(err), `unknown field "spec.authOptions`)
}

// tokenByEnvironment says what authOptions say in the way that Ray itself reads it. Init containers of KubeRay take over the environment.
func tokenByEnvironment(rc *rayv1.RayCluster) {
	secret := *rc.Spec.AuthOptions.SecretName
	rc.Spec.AuthOptions = nil
	addToken(&rc.Spec.HeadGroupSpec.Template, secret)
	for i := range rc.Spec.WorkerGroupSpecs {
		addToken(&rc.Spec.WorkerGroupSpecs[i].Template, secret)
	}
}

func addToken(t *corev1.PodTemplateSpec, secret string) {
	c := rayContainer(t)
	c.Env = append(c.Env, corev1.EnvVar{Name: "RAY_AUTH_MODE", Value: "token"}, corev1.EnvVar{Name: "RAY_AUTH_TOKEN", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: tokenKey},
	}})
}
