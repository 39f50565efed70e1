package kubetest

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/kubetest/build"
)

const (
	kyvernoNamespace = "kyverno"
	kyvernoPort      = "9445"
)

// startKyverno starts Kyverno's admission controller as its DEVELOPMENT.md runs it outside of a cluster: with --serverIP its webhooks have an address in place of a
// Service. It registers them itself, for what policies ask.
func startKyverno(ctx context.Context, b *bed.Bed) error {
	built, err := build.Kyverno(ctx)
	if err != nil {
		return err
	}
	crds, err := filepath.Glob(built.Share("crds/*"))
	if err != nil {
		return err
	}
	if err := settle(ctx, b, kyvernoNamespace, crds...); err != nil {
		return err
	}
	client, err := guestClient(b)
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(kyvernoNamespace)
	only := fmt.Sprintf(`{"namespaceSelector": {"matchLabels": {%q: "true"}}}`, guestLabel(Kyverno))
	for name, data := range map[string]map[string]string{"kyverno": {"webhooks": only}, "kyverno-metrics": nil} {
		if err := createObject(ctx, maps.Create, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: data}); err != nil {
			return err
		}
	}
	return b.StartGuest(ctx, bed.Guest{
		Part: Kyverno,
		Argv: []string{
			built.Program("kyverno"), "--kubeconfig=" + b.Kubeconfig(), "--serverIP=" + b.Loopback() + ":" + kyvernoPort,
			"--webhookServerHost=" + b.Loopback(), "--webhookServerPort=" + kyvernoPort, "--controllerRuntimeMetricsAddress=0", "--disableMetrics", "--otelConfig=",
			"--enableTuf=false", "--admissionReports=false",
			"--backgroundServiceAccountName=system:serviceaccount:kyverno:background", "--caSecretName=ca", "--tlsSecretName=tls",
		},
		Env: []string{
			"KYVERNO_NAMESPACE=" + kyvernoNamespace, "KYVERNO_SVC=kyverno-svc", "KYVERNO_SERVICEACCOUNT_NAME=kyverno", "KYVERNO_ROLE_NAME=kyverno",
			"KYVERNO_DEPLOYMENT=none", "KYVERNO_POD_NAME=none", "INIT_CONFIG=kyverno", "METRICS_CONFIG=kyverno-metrics", "KYVERNO_DRYRUN_NAMESPACE=" + kyvernoNamespace,
		},
		Ready: bed.Answers("https://" + b.Loopback() + ":" + kyvernoPort + "/health/readiness"),
	})
}
