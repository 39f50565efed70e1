package kuberay_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/test/kubetest"
	"github.com/rayctl/rayctl/test/pace"
)

// webhook lets the API server ask about each object of a resource that is created in the namespace, by a webhook of this name. kind is Mutating or Validating.
func (b bed) webhook(t *testing.T, kind, name, resource string, answer func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse)) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		review := admissionv1.AdmissionReview{}
		if json.NewDecoder(r.Body).Decode(&review) != nil || review.Request == nil {
			http.Error(w, "no review", http.StatusBadRequest)
			return
		}
		response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
		answer(review.Request, response)
		review.Response, review.Request = response, nil
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(s.Close)
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	object := "webhook-" + resource + "-" + b.namespace
	b.Create(t, "", fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: %sWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: %s
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: %q, caBundle: %s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: [%s]}]`, kind, object, name, s.URL+"/ask", bundle, b.namespace, resource))
	t.Cleanup(func() {
		o, ctx, hooks := metav1.DeleteOptions{}, context.Background(), b.Core.AdmissionregistrationV1()
		remove := hooks.MutatingWebhookConfigurations().Delete
		if kind == "Validating" {
			remove = hooks.ValidatingWebhookConfigurations().Delete
		}
		if err := remove(ctx, object, o); err != nil {
			t.Error(err)
		}
	})
}

// kyverno refuses the objects of a resource for which blocks returns true, in Kyverno's words (GetBlockedMessages in pkg/webhooks/utils/block.go), under the name
// that its webhook for ClusterPolicies has. Everything before the answer is real: the API server asks over TLS, also for dry runs.
func (b bed) kyverno(t *testing.T, resource, policy, said string, blocks func(kind, name string) bool) {
	t.Helper()
	var asked atomic.Bool
	b.webhook(t, "Validating", "validate.kyverno.svc-fail", resource, func(a *admissionv1.AdmissionRequest, answer *admissionv1.AdmissionResponse) {
		asked.Store(true)
		object := metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(a.Object.Raw, &object); err != nil {
			t.Error(err)
		}
		name := object.Name + object.GenerateName
		if blocks(a.Kind.Kind, name) {
			answer.Allowed = false
			answer.Result = &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusBadRequest, Message: fmt.Sprintf(
				"\n\nresource %s/%s/%s was blocked due to the following policies \n\n%s:\n  check: 'validation error: %s. rule check failed\n    at path /metadata/'\n",
				a.Kind.Kind, a.Namespace, name, policy, said)}
		}
	})
	kubetest.Await(t, "the webhook to be asked", func(ctx context.Context) error {
		o := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
		switch resource {
		case "pods":
			_, _ = b.Core.CoreV1().Pods(b.namespace).Create(ctx, anyPod(), o)
		case "services":
			_, _ = b.Core.CoreV1().Services(b.namespace).Create(ctx, anyService(), o)
		}
		if !asked.Load() {
			return errors.New("it is not")
		}
		return nil
	})
}

// TestWebhookRefuses: who refuses is a policy of Kyverno's or the like. The sentence has the policy and the key that answers it, whenever it comes.
func TestWebhookRefuses(t *testing.T) {
	pace.Parallel(t)
	const said = "label ''team'' is required"
	heads := func(_, name string) bool { return strings.Contains(name, "head") }
	t.Run("Pods", func(t *testing.T) { // the operator may not make the head: the launch ends, and doctor has reported it before
		pace.Parallel(t)
		b := newBed(t)
		b.kyverno(t, "pods", "require-labels", said, heads)
		fails(t, findings(t, b.l, smallSpec()), "pods of the cluster", "or ask for an exception of policy require-labels")
		_, err := b.l.Launch(t.Context(), job("refused", "echo never"), launcher.Payload{})
		wantRefusal(t, err, runstate.CodeStartFailed, `a pod of the head is refused: admission webhook "validate.kyverno.svc-fail" denied the request: it was blocked due to the following policies require-labels: check: `, "label ''team'' is required", "change labels or head.patch, or ask for an exception of policy require-labels")
		b.awaitNothing(t, "refused")
	})
	t.Run("Helpers", func(t *testing.T) { // the Job controller may not make the keeper's pod
		pace.Parallel(t)
		b := newBed(t)
		b.kyverno(t, "pods", "require-labels", said, func(_, name string) bool { return !strings.Contains(name, "head") })
		fails(t, findings(t, b.l, smallSpec()), "pods and DNS", "change kuberay.keeperPatch, or ask for an exception of policy require-labels")
		_, err := b.l.Launch(t.Context(), job("refused", "echo never"), launcher.Payload{})
		wantRefusal(t, err, runstate.CodeStartFailed, "the keeper of refused does not start: a pod of the keeper is refused", "change kuberay.keeperPatch, or ask for an exception of policy require-labels")
		b.awaitNothing(t, "refused")
	})
	t.Run("Objects", func(t *testing.T) { // rayctl itself may not make one of its objects
		pace.Parallel(t)
		b := newBed(t)
		b.kyverno(t, "services", "require-labels", said, func(kind, _ string) bool { return kind == "Service" })
		fails(t, findings(t, b.l, smallSpec()), "objects", "change labels, or ask for an exception of policy require-labels")
		_, err := b.l.Launch(t.Context(), job("refused", "echo never"), launcher.Payload{})
		wantRefusal(t, err, runstate.CodePermission, "creating services in namespace "+b.namespace+" is not permitted", "change labels, or ask for an exception of policy require-labels")
		b.awaitNothing(t, "refused")
	})
	t.Run("Later", func(t *testing.T) { // the policy is made while the cluster waits for nodes: whoever watches gets the sentence, and nobody waits
		pace.Parallel(t)
		b := newBed(t)
		s, worker := job("later", "echo never"), smallNode()
		worker.GPUs = 9 // nobody has so many
		s.Workers = []spec.WorkerGroup{{Name: "w", NodeResources: worker}}
		r := b.run(t, b.l, s)
		r.until(t, "a launch that is done", func(st launcher.Status) bool { return st.Phase == runstate.Queued && st.Reason.Code != "" })
		b.worker(t, "")
		b.kyverno(t, "pods", "require-labels", said, func(_, name string) bool { return strings.Contains(name, "-w-worker-") })
		b.DeletePods(t, b.namespace, "ray.io/group=w", 0)
		e, _ := r.ended(t)
		if want := "change labels or workers[].patch of group w, or ask for an exception of policy require-labels"; e.Cause != runstate.CauseStartFailed || e.Code != runstate.CodeStartFailed || !strings.Contains(e.Message, want) {
			t.Errorf("it ends with %+v, want %q", e, want)
		}
	})
}

// wantRefusal checks an error's code and what its sentence has.
func wantRefusal(t *testing.T, err error, code int, texts ...string) {
	t.Helper()
	if err == nil || launcher.ExitCode(err) != code {
		t.Fatalf("code %d, want %d: %v", launcher.ExitCode(err), code, err)
	}
	for _, want := range texts {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nwant %q", err, want)
		}
	}
}
