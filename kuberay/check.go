package kuberay

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// permission is one that rayctl needs; docs/kuberay.md has the Role.
type permission struct {
	group, resource string
	verbs           []string
}

var permissions = []permission{
	{"batch", "jobs", []string{"create", "get", "list", "watch", "patch", "delete"}},
	{"", "secrets", []string{"create", "get", "list", "watch", "patch"}},
	{"", "services", []string{"create"}},
	{"ray.io", "rayclusters", []string{"create", "get", "list", "watch"}},
	{"", "pods", []string{"get", "list", "watch"}},
	{"", "pods/log", []string{"get"}},
	{"", "pods/portforward", []string{"get"}},
	{"", "events", []string{"list", "watch"}},
}

var volcanoPermissions = permission{"scheduling.volcano.sh", "podgroups", []string{"create", "get", "list", "watch"}}

// Check looks at what a cluster on Kubernetes needs. It creates nothing that stays.
func (l *Launcher) Check(ctx context.Context, _ *spec.ClusterSpec) []launcher.Check {
	c, err := l.kube(ctx)
	if err != nil {
		return []launcher.Check{{Name: "Kubernetes", Detail: err.Error()}}
	}
	version, err := c.core.Discovery().ServerVersion()
	if err != nil {
		return []launcher.Check{{Name: "Kubernetes", Detail: explain(err, "get", "the version", c).Error()}}
	}
	checks := []launcher.Check{
		{Name: "Kubernetes", OK: true, Detail: fmt.Sprintf("%s at %s, namespace %s", version.GitVersion, c.config.Host, c.namespace)},
		{Name: "KubeRay", OK: true, Detail: "ray.io/v1 is served"},
		{Name: "gang scheduling", OK: c.served.volcano, Detail: volcanoDetail(c.served.volcano), Hint: "install Volcano, or use gang: false for GPU clusters of several pods"},
	}
	wanted := permissions
	if c.served.volcano {
		wanted = append(wanted[:len(wanted):len(wanted)], volcanoPermissions)
	}
	return append(checks, c.checkPermissions(ctx, wanted))
}

func volcanoDetail(served bool) string {
	if served {
		return "Volcano's PodGroups are served"
	}
	return "Volcano is not installed"
}

// checkPermissions asks for each one by SelfSubjectAccessReview, which everybody may create.
func (c *client) checkPermissions(ctx context.Context, wanted []permission) launcher.Check {
	var missing []string
	asked := 0
	for _, p := range wanted {
		for _, verb := range p.verbs {
			asked++
			resource, sub, _ := strings.Cut(p.resource, "/")
			review, err := c.core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Namespace: c.namespace, Group: p.group, Resource: resource, Subresource: sub, Verb: verb,
				}},
			}, metav1.CreateOptions{})
			if err != nil {
				return launcher.Check{Name: "permissions", Detail: explain(err, "create", "selfsubjectaccessreviews", c).Error()}
			}
			if !review.Status.Allowed {
				missing = append(missing, verb+" "+p.resource)
			}
		}
	}
	if len(missing) > 0 {
		return launcher.Check{Name: "permissions", Detail: "not permitted: " + strings.Join(missing, ", "), Hint: "ask for the Role in docs/kuberay.md"}
	}
	return launcher.Check{Name: "permissions", OK: true, Detail: fmt.Sprintf("all %d", asked)}
}
