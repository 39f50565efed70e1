package kubetest

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
)

// Namespace creates a namespace with a unique name. At the test's end it deletes the namespace with its content, and waits for that.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	ns, err := c.Core.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "test-" + rand.String(6), Labels: map[string]string{"rayctl-test": "true"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("creating a namespace: %v", err)
	}
	t.Cleanup(func() { c.removeNamespace(t, ns.Name) })
	// Kubernetes refuses a pod until its service account exists.
	Await(t, "the service account of namespace "+ns.Name, func(ctx context.Context) error {
		_, err := c.Core.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return ns.Name
}

func (c *Cluster) removeNamespace(t testing.TB, name string) {
	t.Helper()
	Await(t, "the end of namespace "+name, unhurried(func(ctx context.Context) error {
		err := c.Core.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil && !apierrors.IsConflict(err):
			return err
		}
		left, err := c.Left(ctx, name)
		return fmt.Errorf("it still has %v (%w)", left, err)
	}))
}

// KubeconfigFor is the administrator's kubeconfig with a namespace.
func (c *Cluster) KubeconfigFor(t testing.TB, namespace string) string {
	t.Helper()
	return c.writeKubeconfig(t, namespace, c.REST.BearerToken)
}

// LimitedKubeconfig is the kubeconfig of a new service account with only the given rules in its namespace.
func (c *Cluster) LimitedKubeconfig(t testing.TB, namespace string, rules ...rbacv1.PolicyRule) string {
	t.Helper()
	ctx, meta := t.Context(), metav1.ObjectMeta{Name: "user-" + rand.String(6)}
	if _, err := c.Core.CoreV1().ServiceAccounts(namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating a service account: %v", err)
	}
	if _, err := c.Core.RbacV1().Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("creating a role: %v", err)
	}
	if _, err := c.Core.RbacV1().RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta,
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Name: meta.Name, Namespace: namespace}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatalf("binding a role: %v", err)
	}
	token, err := c.Core.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, meta.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("asking for a token: %v", err)
	}
	return c.writeKubeconfig(t, namespace, token.Status.Token)
}

// InvalidKubeconfig has a token that the API server refuses (401), like an expired one.
func (c *Cluster) InvalidKubeconfig(t testing.TB, namespace string) string {
	t.Helper()
	return c.writeKubeconfig(t, namespace, "expired")
}

func (c *Cluster) writeKubeconfig(t testing.TB, namespace, token string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := c.bed.WriteKubeconfig(path, namespace, token); err != nil {
		t.Fatal(err)
	}
	return path
}
