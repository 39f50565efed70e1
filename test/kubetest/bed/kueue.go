package bed

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/cert"

	"github.com/rayctl/rayctl/test/kubetest/build"
)

// Kueue is a part that only tests start which are about it.
const Kueue Part = "kueue"

const (
	kueueNamespace = "kueue-system"
	kueueHooks     = "kueue"
	kueuePort      = "9443"
)

// StartKueue starts Kueue, with the frameworks of its default configuration that are here, for one namespace, and returns when it answers.
func (b *Bed) StartKueue(ctx context.Context, namespace string) error {
	built, err := build.Kueue(ctx)
	if err != nil {
		return err
	}
	if err := b.applyCRDs(ctx, built.Share("crds")); err != nil {
		return err
	}
	if err := b.createNamespace(ctx, kueueNamespace); err != nil {
		return err
	}
	bundle, err := b.certify(b.path("pki", "kueue"))
	if err != nil {
		return err
	}
	if err := os.WriteFile(b.path("kueue.yaml"), []byte(b.kueueConfig()), 0o600); err != nil {
		return err
	}
	if err := b.StopKueue(ctx); err != nil { // that of a test that was killed
		return err
	}
	if err := b.start(ctx, Kueue, b.kueueCommand(built)); err != nil {
		return err
	}
	return b.registerKueue(ctx, filepath.Join(built.Share("webhook"), "manifests.yaml"), namespace, bundle)
}

// StopKueue ends it. Its CRDs stay; its objects must be gone before, which it alone releases.
func (b *Bed) StopKueue(ctx context.Context) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	hooks := client.AdmissionregistrationV1()
	for _, remove := range []func(context.Context, string, metav1.DeleteOptions) error{
		hooks.MutatingWebhookConfigurations().Delete, hooks.ValidatingWebhookConfigurations().Delete,
	} {
		if err := remove(ctx, kueueHooks, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return b.stop(ctx, Kueue)
}

func (b *Bed) kueueConfig() string {
	return fmt.Sprintf(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
webhook: {host: %q, port: %s, certDir: %q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
featureGates: {VisibilityOnDemand: false}
integrations: {frameworks: [batch/job, ray.io/rayjob, ray.io/raycluster, ray.io/rayservice]}
`, net.JoinHostPort(b.loopback(), "8083"), b.loopback(), kueuePort, b.path("pki", "kueue"))
}

func (b *Bed) kueueCommand(built build.Built) command {
	return command{
		argv:  []string{built.Program("kueue"), "--config=" + b.path("kueue.yaml")},
		env:   []string{"KUBECONFIG=" + b.Kubeconfig()},
		ready: answers("http://" + net.JoinHostPort(b.loopback(), "8083") + "/readyz"),
	}
}

// certify writes a server's key and certificate for the testbed's loopback address, and returns what verifies them.
func (b *Bed) certify(dir string) (bundle []byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	chain, key, err := cert.GenerateSelfSignedCertKey(b.loopback(), []net.IP{net.ParseIP(b.loopback())}, nil)
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

// registerKueue creates Kueue's own webhook configurations: those for its objects in the whole cluster, those for jobs in one namespace, so that no other test's
// are held. Those for kinds that no test makes are left out.
func (b *Bed) registerKueue(ctx context.Context, file, namespace string, bundle []byte) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	client, err := b.dynamicClient()
	if err != nil {
		return err
	}
	documents := apiyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		hooks := &unstructured.Unstructured{}
		if err := documents.Decode(&hooks.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		hooks.SetName(kueueHooks)
		all, _, _ := unstructured.NestedSlice(hooks.Object, "webhooks")
		all = slices.DeleteFunc(all, func(w any) bool { return !b.adaptHook(w.(map[string]any), namespace, bundle) })
		if err := unstructured.SetNestedSlice(hooks.Object, all, "webhooks"); err != nil {
			return err
		}
		resource, _ := meta.UnsafeGuessKindToResource(hooks.GroupVersionKind())
		if _, err := client.Resource(resource).Create(ctx, hooks, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("registering Kueue's webhooks: %w", err)
		}
	}
}

// adaptHook lets a webhook's questions come to this machine's process; false: it is for a kind that no test makes.
func (b *Bed) adaptHook(hook map[string]any, namespace string, bundle []byte) bool {
	path, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "path")
	hook["clientConfig"] = map[string]any{
		"url": "https://" + net.JoinHostPort(b.loopback(), kueuePort) + path, "caBundle": base64.StdEncoding.EncodeToString(bundle),
	}
	rules, _, _ := unstructured.NestedSlice(hook, "rules")
	groups, _, _ := unstructured.NestedStringSlice(rules[0].(map[string]any), "apiGroups")
	if groups[0] == "kueue.x-k8s.io" {
		return true
	}
	hook["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{corev1.LabelMetadataName: namespace}}
	return groups[0] == "ray.io" || groups[0] == "batch"
}
