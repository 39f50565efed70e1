package objects

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/leak"
)

// TestSecrets: values of secrets are in the Secret and in no other object.
func TestSecrets(t *testing.T) {
	p, err := planOf(t, gangFile, true).With(launcher.Payload{Secrets: map[string]string{"WANDB_API_KEY": "s3cr3t-value"}})
	if err != nil {
		t.Fatal(err)
	}
	secret, err := p.Secret()
	if err != nil {
		t.Fatal(err)
	}
	if string(secret.Data["env.WANDB_API_KEY"]) != "s3cr3t-value" || string(secret.Data["auth_token"]) != p.Token {
		t.Error("the Secret does not hold the secrets")
	}
	for _, key := range []string{OrdersKey, SpecKey} {
		if how := leak.Find(secret.Data[key], "s3cr3t-value"); how != "" {
			t.Errorf("a secret is in %s, %s", key, how)
		}
	}
	rc, err := p.RayCluster()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []any{p.KeeperJob(), p.Service(), rc, p.Admitter.Object(rc), p.RecordJob()} {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{"s3cr3t-value", p.Token} {
			if how := leak.Find(text, value); how != "" {
				t.Errorf("a secret is in %T, %s", o, how)
			}
		}
	}
	for _, source := range p.keeperFiles() {
		for _, item := range source.Secret.Items {
			if strings.HasPrefix(item.Key, envPrefix) {
				t.Errorf("the keeper's pod sees %s", item.Key)
			}
		}
	}
	if _, err := planOf(t, gangFile, true).With(launcher.Payload{}); launcher.ExitCode(err) != runstate.CodeSpec {
		t.Errorf("a secret without a value: %v", err)
	}
}

// TestHelperPods: keeper and record have what the file gives all pods, and limits that are at most twice their requests.
func TestHelperPods(t *testing.T) {
	p := planOf(t, smallFile+"kuberay: {priorityClassName: high, annotations: {team: rl}, nodeSelector: {a: b}}\n", false)
	for _, pod := range []corev1.PodTemplateSpec{p.KeeperJob().Spec.Template, p.RecordJob().Spec.Template} {
		if pod.Annotations["team"] != "rl" || pod.Spec.PriorityClassName != "high" || pod.Spec.NodeSelector["a"] != "b" {
			t.Errorf("%s: annotations %v, spec %+v", pod.Labels[LabelRole], pod.Annotations, pod.Spec)
		}
		r := pod.Spec.Containers[0].Resources
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := r.Requests[name], r.Limits[name]
			if request.IsZero() || limit.Cmp(request) < 0 || limit.MilliValue() > 2*request.MilliValue() {
				t.Errorf("%s: %s %s, limit %s", pod.Labels[LabelRole], name, request.String(), limit.String())
			}
		}
	}
}
