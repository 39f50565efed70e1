package kubetest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/rayctl/rayctl/test/kubetest/bed"
)

// The guests are what sites have beside KubeRay, and what only some tests need: the real programs as processes of this machine. Their webhooks are asked about the
// namespaces alone that have the guest's label: no other test's objects wait for them.
const (
	Kueue      bed.Part = "kueue"
	Kyverno    bed.Part = "kyverno"
	Gatekeeper bed.Part = "gatekeeper"
)

// kueueHoldsAll labels, with guestLabel, the namespaces in which Kueue holds all jobs (manageJobsWithoutQueueName).
const kueueHoldsAll bed.Part = Kueue + "-holds-all"

// guestLabel is the label of the namespaces that a guest is for; its value is "true".
func guestLabel(part bed.Part) string { return "rayctl-test-" + string(part) }

// startGuest starts a guest, and returns when it works.
func startGuest(ctx context.Context, b *bed.Bed, part bed.Part) error {
	if err := stopGuest(ctx, b, part); err != nil { // that of a test that was killed
		return err
	}
	switch part {
	case Kueue:
		return startKueue(ctx, b)
	case Kyverno:
		return startKyverno(ctx, b)
	case Gatekeeper:
		return startGatekeeper(ctx, b)
	}
	return fmt.Errorf("there is no guest %s", part)
}

// stopGuest ends a guest, and its webhooks before it: a request that asks one that is gone is refused. Its CRDs stay; objects that it alone can release must be gone.
func stopGuest(ctx context.Context, b *bed.Bed, part bed.Part) error {
	stop := func() error { return b.Stop(ctx, part) }
	remove := func() error { return removeHooks(ctx, b, part) }
	steps := []func() error{remove, stop}
	if part == Kyverno { // it makes its webhooks again
		steps = []func() error{stop, remove}
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// removeHooks deletes a guest's webhook configurations, by the label that Kyverno or this package has given them.
func removeHooks(ctx context.Context, b *bed.Bed, part bed.Part) error {
	client, err := guestClient(b)
	if err != nil {
		return err
	}
	hooks, only := client.AdmissionregistrationV1(), metav1.ListOptions{LabelSelector: hookLabel + "=" + string(part)}
	if err := hooks.MutatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, only); err != nil {
		return err
	}
	return hooks.ValidatingWebhookConfigurations().DeleteCollection(ctx, metav1.DeleteOptions{}, only)
}

// hookLabel is what Kyverno labels its webhook configurations with (pkg/utils/kube, LabelWebhookManagedBy), used for all guests.
const hookLabel = "webhook.kyverno.io/managed-by"

// settle makes what a guest finds when it starts: its CRDs and its namespace.
func settle(ctx context.Context, b *bed.Bed, namespace string, crds ...string) error {
	if err := b.ApplyCRDs(ctx, crds...); err != nil {
		return err
	}
	return b.CreateNamespace(ctx, namespace)
}

func guestClient(b *bed.Bed) (*kubernetes.Clientset, error) {
	config, err := b.RESTConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// createObject ignores that an object is there already: a guest's namespace stays when it ends.
func createObject[T any](ctx context.Context, create func(context.Context, *T, metav1.CreateOptions) (*T, error), object *T) error {
	if _, err := create(ctx, object, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}

// certify writes a server's key and certificate for the testbed's loopback address, and returns what verifies them.
func certify(b *bed.Bed, dir string) (bundle []byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	chain, key, err := cert.GenerateSelfSignedCertKey(b.Loopback(), []net.IP{net.ParseIP(b.Loopback())}, nil)
	if err != nil {
		return nil, fmt.Errorf("making a certificate: %w", err)
	}
	for name, text := range map[string][]byte{"tls.crt": chain, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			return nil, err
		}
	}
	return chain, nil
}
