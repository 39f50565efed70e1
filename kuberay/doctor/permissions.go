package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/rayctl/rayctl/kuberay/admit"
	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/kuberayspec"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/transport"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
)

// permission is one that rayctl needs; docs/kuberay-reference.md has the Role.
type permission struct {
	group, resource string
	verbs           []string
}

var permissions = []permission{
	{"", "pods", []string{"get", "list", "watch"}},
	{"", "pods/log", []string{"get"}},
	{"", "pods/exec", []string{"get", "create"}},
	{"", "events", []string{"list", "watch"}},
}

// keeperPermissions are for clusters with a keeper. Whether they need jobs/finalizers, too, is seen by tryOut.
var keeperPermissions = []permission{
	{"batch", "jobs", []string{"create", "get", "list", "watch", "patch", "delete"}},
	{"", "secrets", []string{"create", "get", "patch"}},
	{"", "services", []string{"create"}},
	{"ray.io", "rayclusters", []string{"create", "get", "list", "watch"}},
}

// keeperlessPermissions are for kuberay.keeper: none.
var keeperlessPermissions = []permission{
	{"batch", "jobs", []string{"get", "list", "watch"}},
	{"", "secrets", []string{"create", "get", "patch"}},
	{"ray.io", "rayclusters", []string{"create", "get", "list", "watch", "delete"}},
}

var (
	configMapPermissions = permission{"", "configmaps", []string{"create", "get", "patch"}}
	// One of these is enough.
	ways      = []permission{{"", "pods/portforward", []string{"create"}}, {"", "services/proxy", []string{"get", "create", "update"}}}
	websocket = permission{"", "pods/portforward", []string{"get"}} // also enough before Kubernetes 1.35 (AuthorizePodWebsocketUpgradeCreatePermission)
)

// parallelReviews is how many questions are asked at once.
const parallelReviews = 8

// checkPermissions examines each permission by a SelfSubjectAccessReview, which every user may create.
func checkPermissions(ctx context.Context, c *api.Client, s *spec.ClusterSpec) launcher.Check {
	check := launcher.Check{Name: "permissions", Hint: transport.RoleHint}
	wanted := permissionsFor(s, c.Served.Admitters)
	enough := slices.Clone(ways)
	if olderThan(c, "1.35.0") {
		enough = append(enough, websocket)
	}
	refused, err := refusals(ctx, c, append(wanted, enough...))
	if err != nil {
		return failed(check.Name, err)
	}
	var missing []string
	named := ""
	for i, list := range refused[:len(wanted)] {
		if wanted[i].resource == "secrets" && len(list) > 0 && s.Name != "" {
			if list, err = byName(ctx, c, wanted[i], list, objects.SecretName(s.Name)); err != nil {
				return failed(check.Name, err)
			}
			if len(list) == 0 {
				named = "; the only Secret that you may get is " + objects.SecretName(s.Name) + ", so the cluster must have this name"
			}
		}
		missing = append(missing, list...)
	}
	if !slices.ContainsFunc(refused[len(wanted):], func(list []string) bool { return len(list) == 0 }) {
		missing = append(missing, "create pods/portforward (or get, create and update services/proxy)")
	}
	if len(missing) > 0 {
		check.Detail = "not permitted: " + strings.Join(missing, ", ")
		return check
	}
	check.OK, check.Detail = true, fmt.Sprintf("all that rayctl needs in namespace %s", c.Namespace)+named
	return check
}

// byName leaves of the verbs that are refused for all objects of a resource those that are refused for this one, too (resourceNames of a Role). Roles cannot
// name what is to be created (Kubernetes' documentation, "Using RBAC Authorization", "Referring to resources").
func byName(ctx context.Context, c *api.Client, p permission, refused []string, name string) (left []string, err error) {
	for _, what := range refused {
		verb, _, _ := strings.Cut(what, " ")
		ok := false
		if verb != "create" {
			if ok, err = allowed(ctx, c, p, verb, name); err != nil {
				return nil, err
			}
		}
		if !ok {
			left = append(left, what)
		}
	}
	return left, nil
}

// permissionsFor are those that the file needs all of.
func permissionsFor(s *spec.ClusterSpec, served admit.Served) []permission {
	wanted := slices.Concat(keeperPermissions, permissions)
	if kuberayspec.Of(s).Keeper == objects.KeeperNone {
		wanted = slices.Concat(keeperlessPermissions, permissions)
	}
	for _, a := range served.Gangs() {
		i := a.Info()
		if kuberayspec.Of(s).Scheduler == "auto" || kuberayspec.Of(s).Scheduler == i.Name {
			wanted = append(wanted, permission{i.Objects.Group, i.Objects.Resource, i.Verbs})
		}
	}
	if len(kuberayspec.Of(s).ConfigMaps) > 0 {
		wanted = append(wanted, configMapPermissions)
	}
	return wanted
}

// olderThan reports whether the API server's version is below wanted; false if the version is unknown.
func olderThan(c *api.Client, wanted string) bool {
	info, err := c.Core.Discovery().ServerVersion()
	if err != nil {
		return false
	}
	v, err := version.ParseGeneric(info.GitVersion)
	return err == nil && v.LessThan(version.MustParseSemantic(wanted))
}

// refusals lists for each permission the verbs that are not allowed, as "verb resource".
func refusals(ctx context.Context, c *api.Client, wanted []permission) ([][]string, error) {
	out := make([][]string, len(wanted))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelReviews)
	for i, p := range wanted {
		g.Go(func() error {
			for _, verb := range p.verbs {
				allowed, err := allowed(ctx, c, p, verb, "")
				if err != nil {
					return err
				}
				if !allowed {
					out[i] = append(out[i], verb+" "+p.resource)
				}
			}
			return nil
		})
	}
	return out, g.Wait()
}

func allowed(ctx context.Context, c *api.Client, p permission, verb, name string) (bool, error) {
	resource, sub, _ := strings.Cut(p.resource, "/")
	review, err := c.Core.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: c.Namespace, Group: p.group, Resource: resource, Subresource: sub, Verb: verb, Name: name,
		}},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, api.Explain(err, "create", "selfsubjectaccessreviews", c)
	}
	return review.Status.Allowed, nil
}
