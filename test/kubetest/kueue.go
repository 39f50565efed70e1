package kubetest

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

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/kubetest/build"
)

const (
	kueueNamespace = "kueue-system"
	kueuePort      = "9443"
	kueueHealth    = "8083"
)

// startKueue starts Kueue with the frameworks of its default configuration that are here, and registers its webhooks.
func startKueue(ctx context.Context, b *bed.Bed) error {
	built, err := build.Kueue(ctx)
	if err != nil {
		return err
	}
	if err := settle(ctx, b, kueueNamespace, built.Share("crds")); err != nil {
		return err
	}
	certs, config := filepath.Join(b.Dir, "pki", "kueue"), filepath.Join(b.Dir, "kueue.yaml")
	bundle, err := certify(b, certs)
	if err != nil {
		return err
	}
	if err := os.WriteFile(config, []byte(kueueConfig(b.Loopback(), certs)), 0o600); err != nil {
		return err
	}
	if err := b.StartGuest(ctx, bed.Guest{
		Part: Kueue, Argv: []string{built.Program("kueue"), "--config=" + config},
		Ready: bed.Answers("http://" + net.JoinHostPort(b.Loopback(), kueueHealth) + "/readyz"),
	}); err != nil {
		return err
	}
	return registerKueue(ctx, b, filepath.Join(built.Share("webhook"), "manifests.yaml"), bundle)
}

// kueueConfig holds all jobs of some namespaces, and of others only those in a queue, which Kueue 0.17 does not do unless
// ManagedJobsNamespaceSelectorAlwaysRespected is off. It admits elastic jobs, as Kueue does by default since 0.18.
func kueueConfig(host, certs string) string {
	return fmt.Sprintf(`apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
health: {healthProbeBindAddress: %q}
metrics: {bindAddress: "0"}
webhook: {host: %q, port: %s, certDir: %q}
leaderElection: {leaderElect: false}
internalCertManagement: {enable: false}
featureGates: {VisibilityOnDemand: false, ManagedJobsNamespaceSelectorAlwaysRespected: false, ElasticJobsViaWorkloadSlices: true}
manageJobsWithoutQueueName: true
managedJobsNamespaceSelector: {matchLabels: {%s: "true"}}
integrations: {frameworks: [batch/job, ray.io/rayjob, ray.io/raycluster, ray.io/rayservice]}
`, net.JoinHostPort(host, kueueHealth), host, kueuePort, certs, guestLabel(kueueHoldsAll))
}

// registerKueue creates Kueue's own webhook configurations: those for its objects in the whole cluster, those for jobs in the namespaces that it is
// for. Those for kinds that no test makes are left out.
func registerKueue(ctx context.Context, b *bed.Bed, file string, bundle []byte) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	rest, err := b.RESTConfig()
	if err != nil {
		return err
	}
	client, err := dynamic.NewForConfig(rest)
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
		hooks.SetName(string(Kueue))
		hooks.SetLabels(map[string]string{hookLabel: string(Kueue)})
		all, _, _ := unstructured.NestedSlice(hooks.Object, "webhooks")
		all = slices.DeleteFunc(all, func(w any) bool { return !adaptHook(w.(map[string]any), b.Loopback(), bundle) })
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
func adaptHook(hook map[string]any, host string, bundle []byte) bool {
	path, _, _ := unstructured.NestedString(hook, "clientConfig", "service", "path")
	hook["clientConfig"] = map[string]any{
		"url": "https://" + net.JoinHostPort(host, kueuePort) + path, "caBundle": base64.StdEncoding.EncodeToString(bundle),
	}
	rules, _, _ := unstructured.NestedSlice(hook, "rules")
	groups, _, _ := unstructured.NestedStringSlice(rules[0].(map[string]any), "apiGroups")
	if groups[0] == "kueue.x-k8s.io" {
		return true
	}
	hook["namespaceSelector"] = map[string]any{"matchLabels": map[string]any{guestLabel(Kueue): "true"}}
	return groups[0] == "ray.io" || groups[0] == "batch"
}
