package kubetest

import (
	"context"
	"net"
	"path/filepath"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/test/kubetest/bed"
	"github.com/rayctl/rayctl/test/kubetest/build"
)

const (
	gatekeeperNamespace = "gatekeeper-system"
	gatekeeperPod       = "gatekeeper"
	gatekeeperPort      = "9444"
	gatekeeperHealth    = "9091"
	gatekeeperMetrics   = "8888"
)

// startGatekeeper starts Gatekeeper with the operations of its controller's Deployment that admit objects, and the webhook of its chart.
func startGatekeeper(ctx context.Context, b *bed.Bed) error {
	built, err := build.Gatekeeper(ctx)
	if err != nil {
		return err
	}
	if err := settle(ctx, b, gatekeeperNamespace, built.Share("crds")); err != nil {
		return err
	}
	certs := filepath.Join(b.Dir, "pki", "gatekeeper")
	bundle, err := certify(b, certs)
	if err != nil {
		return err
	}
	client, err := guestClient(b)
	if err != nil {
		return err
	}
	// Its status objects have its own pod as their owner, so that there must be one.
	if err := createObject(ctx, client.CoreV1().Pods(gatekeeperNamespace).Create, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: gatekeeperPod},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "rayctl.test/never"}}, Containers: []corev1.Container{{Name: "none", Image: "none"}},
			AutomountServiceAccountToken: ptr.To(false),
		},
	}); err != nil {
		return err
	}
	if err := b.StartGuest(ctx, bed.Guest{
		Part: Gatekeeper,
		Argv: []string{
			built.Program("gatekeeper"), "--operation=webhook", "--operation=status", "--operation=generate", "--host=" + b.Loopback(), "--port=" + gatekeeperPort,
			"--disable-cert-rotation", "--cert-dir=" + certs, "--health-addr=" + net.JoinHostPort(b.Loopback(), gatekeeperHealth), "--prometheus-port=" + gatekeeperMetrics,
		},
		Env:   []string{"POD_NAME=" + gatekeeperPod, "POD_NAMESPACE=" + gatekeeperNamespace},
		Ready: bed.Answers("http://" + net.JoinHostPort(b.Loopback(), gatekeeperHealth) + "/readyz"),
	}); err != nil {
		return err
	}
	none, all := admissionv1.SideEffectClassNone, []string{"*"}
	return createObject(ctx, client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create, &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "gatekeeper-validating-webhook-configuration", Labels: map[string]string{hookLabel: string(Gatekeeper)}},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "validation.gatekeeper.sh", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, MatchPolicy: ptr.To(admissionv1.Exact),
			ClientConfig:      admissionv1.WebhookClientConfig{URL: ptr.To("https://" + net.JoinHostPort(b.Loopback(), gatekeeperPort) + "/v1/admit"), CABundle: bundle},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{guestLabel(Gatekeeper): "true"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, Rule: admissionv1.Rule{APIGroups: all, APIVersions: all, Resources: all},
			}},
		}},
	})
}
