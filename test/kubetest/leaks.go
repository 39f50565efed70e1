package kubetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
)

// leakKinds are the resources that a launch may leave; resources that the cluster does not serve are skipped.
var leakKinds = []string{
	"pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "jobs.batch",
	"rayclusters.ray.io", "rayjobs.ray.io", "rayservices.ray.io", "podgroups.scheduling.volcano.sh",
	"serviceaccounts", "roles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io",
}

// Left lists the objects of a namespace as "pods/NAME", "rayclusters.ray.io/NAME" and so on, without those that Kubernetes itself
// creates in each namespace and those of LimitedKubeconfig.
func (c *Cluster) Left(ctx context.Context, namespace string) ([]string, error) {
	client, err := discovery.NewDiscoveryClientForConfig(c.REST)
	if err != nil {
		return nil, err
	}
	lists, err := client.ServerPreferredNamespacedResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		return nil, fmt.Errorf("asking what the cluster serves: %w", err)
	}
	served := discovery.FilteredBy(discovery.ResourcePredicateFunc(func(groupVersion string, r *metav1.APIResource) bool {
		group, _, found := strings.Cut(groupVersion, "/")
		if !found {
			return slices.Contains(leakKinds, r.Name)
		}
		return slices.Contains(leakKinds, r.Name+"."+group)
	}), lists)
	resources, err := discovery.GroupVersionResources(served)
	if err != nil {
		return nil, err
	}
	var left []string
	for gvr := range resources {
		objects, err := c.Dynamic.Resource(gvr).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", gvr.Resource, err)
		}
		for _, object := range objects.Items {
			if !ownedByNamespace(&object) {
				left = append(left, gvr.GroupResource().String()+"/"+object.GetName())
			}
		}
	}
	slices.Sort(left)
	return left, nil
}

func ownedByNamespace(object *unstructured.Unstructured) bool {
	switch object.GetKind() {
	case "ConfigMap":
		return object.GetName() == "kube-root-ca.crt"
	case "ServiceAccount", "Role", "RoleBinding":
		return object.GetName() == "default" || strings.HasPrefix(object.GetName(), "user-")
	}
	return false
}

// NothingLeft waits until a namespace has only objects for which allowed is true (nil: none), and otherwise fails the test with the
// list.
func (c *Cluster) NothingLeft(t testing.TB, namespace string, allowed func(object string) bool) {
	t.Helper()
	Await(t, "nothing to be left in namespace "+namespace, unhurried(func(ctx context.Context) error {
		left, err := c.Left(ctx, namespace)
		if err != nil {
			return err
		}
		if allowed != nil {
			left = slices.DeleteFunc(left, allowed)
		}
		if len(left) > 0 {
			return errors.New("left: " + strings.Join(left, ", "))
		}
		return nil
	}))
}

// unhurried slows down a check that lists every kind of object: a few tests with ten checks a second take half of the machine's processors.
func unhurried(check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := check(ctx)
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(500 * time.Millisecond):
			}
		}
		return err
	}
}
