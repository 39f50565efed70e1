package objects

import (
	rayv1 "github.com/ray-project/kuberay/ray-operator/apis/ray/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// authOptions make Ray check the cluster's token, which is in our Secret.
func (p *Plan) authOptions() *rayv1.AuthOptions {
	return &rayv1.AuthOptions{Mode: rayv1.AuthModeToken, SecretName: ptr.To(SecretName(p.Spec.Name))}
}

// TokenByEnvironment replaces authOptions by the environment variables that Ray itself reads. KubeRay's init containers inherit the environment.
func TokenByEnvironment(rc *rayv1.RayCluster) {
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
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: secret}, Key: TokenKey},
	}})
}
