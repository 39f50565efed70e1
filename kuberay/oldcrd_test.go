//go:build matrix

package kuberay_test

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"

	"github.com/rayctl/rayctl/test/kubetest"
)

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// TestOldCRD: with a CRD that does not know authOptions, as before KubeRay 1.5, Ray has its token all the same.
func TestOldCRD(t *testing.T) {
	b := newBed(t)
	b.forgetAuthOptions(t)
	doctor := findings(t, b.l, smallSpec())["KubeRay"]
	if !doctor.OK {
		t.Errorf("doctor: %+v", doctor)
	}
	// Ray's own client has the token from the environment; without it the dashboard refuses.
	r := b.begin(t, b.l, named("old", `python -c '
import os, urllib.request, urllib.error
try:
    urllib.request.urlopen("http://127.0.0.1:8265/api/version")
    print("open to everybody")
except urllib.error.HTTPError as e:
    print(e.code, os.environ["RAY_AUTH_MODE"])
'`))
	r.wantEnd(t, "succeeded", 0, "401 token\n")
	if rc, err := b.Dynamic.Resource(kubetest.RayClusters).Namespace(b.namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(rc.Items) > 0 {
		t.Errorf("left: %v, %v", rc, err)
	}
}

// forgetAuthOptions takes spec.authOptions out of the CRD until the test ends.
func (b bed) forgetAuthOptions(t *testing.T) {
	t.Helper()
	path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}
	change := func(ctx context.Context, do func(properties map[string]any)) error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			crd, err := b.Dynamic.Resource(crds).Get(ctx, "rayclusters.ray.io", metav1.GetOptions{})
			if err != nil {
				return err
			}
			versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
			if err != nil {
				return err
			}
			for _, v := range versions {
				if v.(map[string]any)["name"] != "v1" {
					continue
				}
				properties, found, err := unstructured.NestedMap(v.(map[string]any), path...)
				if err != nil || !found {
					return errors.Join(err, errors.New("the CRD has no properties"))
				}
				do(properties)
				if err := unstructured.SetNestedMap(v.(map[string]any), properties, path...); err != nil {
					return err
				}
			}
			if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
				return err
			}
			_, err = b.Dynamic.Resource(crds).Update(ctx, crd, metav1.UpdateOptions{})
			return err
		})
	}
	var was any
	t.Cleanup(func() {
		if err := change(context.Background(), func(p map[string]any) { p["authOptions"] = was }); err != nil {
			t.Errorf("put authOptions back: %v", err)
		}
		b.awaitStrict(t, "to be known again", false)
	})
	err := change(t.Context(), func(p map[string]any) {
		was = p["authOptions"]
		delete(p, "authOptions")
	})
	if err != nil {
		t.Fatal(err)
	}
	b.awaitStrict(t, "to be forgotten", true)
}

// awaitStrict waits until the API server validates by the CRD as it is now.
func (b bed) awaitStrict(t *testing.T, what string, refused bool) {
	t.Helper()
	s := smallSpec()
	s.Name = "strict"
	files, err := b.l.Render(s)
	if err != nil {
		t.Fatal(err)
	}
	kubetest.Await(t, "authOptions "+what, func(ctx context.Context) error {
		for _, f := range files {
			if f.Name != "raycluster.yaml" {
				continue
			}
			if err := b.dryRun(ctx, f); (err != nil) != refused {
				return errors.Join(errors.New("not yet"), err)
			}
		}
		return nil
	})
}
