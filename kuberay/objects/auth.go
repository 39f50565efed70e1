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

// Open describes who can connect to what in a cluster without a token; "" if Ray checks a token. Ray's nodes listen on the addresses of their pods, or they would not
// find each other, and by default every pod of a Kubernetes reaches every other (Kubernetes' documentation, "Network Policies").
func (p *Plan) Open() string {
	why := "Ray " + p.version + " has no tokens (2.52 and later have)"
	switch {
	case p.Adopted != nil && p.Adopted.Token.Secret+p.Adopted.Token.Value != "" && (p.hasToken() || p.version == unknownVersion):
		return ""
	case p.Adopted != nil && !p.Adopted.Token.Ours:
		why = "its manifest turns Ray's token authentication off"
	case p.hasToken():
		return ""
	case p.version == unknownVersion:
		why = "the Ray version of the manifest is not known, so the cluster has no token (set ray.version)"
	}
	return why + ": every pod of this Kubernetes that reaches the pods of the cluster, on any node and in any namespace, can run code in it as its user and read its secrets; " +
		"`rayctl render --networkpolicy` prints NetworkPolicies that let in the pods of rayctl's clusters in its namespace alone"
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
