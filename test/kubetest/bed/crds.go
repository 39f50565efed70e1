package bed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

var crdResource = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// applyCRDs creates the CRDs of these directories and returns when the API server serves them.
func (b *Bed) applyCRDs(ctx context.Context, dirs ...string) error {
	return b.eachCRD(ctx, dirs, func(ctx context.Context, crd *unstructured.Unstructured) error {
		if b.serves(crd) == nil {
			return nil
		}
		client, err := b.dynamicClient()
		if err != nil {
			return err
		}
		if _, err := client.Resource(crdResource).Create(ctx, crd, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		return Until(ctx, func(context.Context) error { return b.serves(crd) })
	})
}

// serves requests the list of a group's resources, which is small. The CRD's own condition comes with its schema: more than a
// megabyte for RayCluster.
func (b *Bed) serves(crd *unstructured.Unstructured) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if version["served"] != true {
			continue
		}
		list, err := client.Discovery().ServerResourcesForGroupVersion(fmt.Sprintf("%s/%s", group, version["name"]))
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == plural }) {
			return fmt.Errorf("%s is not served yet", crd.GetName())
		}
	}
	return nil
}

// removeCRDs deletes the CRDs with all their objects, and returns when they are deleted.
func (b *Bed) removeCRDs(ctx context.Context, dirs ...string) error {
	return b.eachCRD(ctx, dirs, func(ctx context.Context, crd *unstructured.Unstructured) error {
		client, err := b.dynamicClient()
		if err != nil {
			return err
		}
		return Until(ctx, func(ctx context.Context) error {
			err := client.Resource(crdResource).Delete(ctx, crd.GetName(), metav1.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return errors.Join(errors.New("it is still there"), err)
		})
	})
}

func (b *Bed) eachCRD(ctx context.Context, dirs []string, do func(context.Context, *unstructured.Unstructured) error) error {
	all, ctx := errgroup.WithContext(ctx)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return fmt.Errorf("there are no CRDs in %s", dir)
		}
		for _, file := range files {
			all.Go(func() error {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				crd := &unstructured.Unstructured{}
				if err := yaml.Unmarshal(text, &crd.Object); err != nil {
					return fmt.Errorf("reading %s: %w", file, err)
				}
				if err := do(ctx, crd); err != nil {
					return fmt.Errorf("CRD %s: %w", crd.GetName(), err)
				}
				return nil
			})
		}
	}
	return all.Wait()
}

// seed gives a new testbed the database of a cluster with only the CRDs of KubeRay and Volcano. Creating the CRDs
// takes the API server longer than the rest of the start, so that the database is made once and cached.
func (b *Bed) seed(ctx context.Context) error {
	v := b.config.Versions
	// The address of the service "kubernetes" is in the database, so the network is part of its name.
	name := fmt.Sprintf("database-%s-%s-%s-%s-%d", v.Etcd, v.Kubernetes, v.KubeRay, v.Volcano, b.subnet)
	dir, err := build.Once(ctx, name, b.makeDatabase)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(b.path("etcd")); err != nil {
		return err
	}
	if err := os.CopyFS(b.path("etcd"), os.DirFS(filepath.Join(dir, "etcd"))); err != nil {
		return fmt.Errorf("copying the database: %w", err)
	}
	return nil
}

// makeDatabase copies etcd's files after a kill, as after a crash: etcd recovers from that.
func (b *Bed) makeDatabase(ctx context.Context, tmp string) error {
	if err := b.startAPIServer(ctx); err != nil {
		return err
	}
	all, crds := errgroup.WithContext(ctx)
	all.Go(func() error { return b.installKubeRay(crds) })
	all.Go(func() error { return b.installVolcano(crds) })
	if err := all.Wait(); err != nil {
		return err
	}
	for _, part := range []Part{APIServer, etcd} {
		if err := b.stop(ctx, part); err != nil {
			return err
		}
	}
	return os.CopyFS(filepath.Join(tmp, "etcd"), os.DirFS(b.path("etcd")))
}
