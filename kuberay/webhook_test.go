package kuberay_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// webhook lets the API server ask about each object of a resource that is created in the namespace, by a mutating webhook of this name.
func (b bed) webhook(t *testing.T, name, resource string, answer func(*admissionv1.AdmissionRequest, *admissionv1.AdmissionResponse)) {
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
kind: MutatingWebhookConfiguration
metadata: {name: %s}
webhooks:
- name: %s
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Fail
  clientConfig: {url: %q, caBundle: %s}
  namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %s}}
  rules: [{apiGroups: ["*"], apiVersions: ["*"], operations: [CREATE], resources: [%s]}]`, object, name, s.URL+"/ask", bundle, b.namespace, resource))
	t.Cleanup(func() {
		hooks := b.Core.AdmissionregistrationV1().MutatingWebhookConfigurations()
		if err := hooks.Delete(context.Background(), object, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}
