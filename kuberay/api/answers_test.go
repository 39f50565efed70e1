package api

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestWholeAnswers: a request whose answer breaks off is answered all the same. The server copies an API server (its answers to creations of
// names that exist, to busy moments and to missing objects) behind a proxy that cuts the first answer to each kind of request.
func TestWholeAnswers(t *testing.T) {
	secret := `{"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x", "uid": "u1"}}`
	status := `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d, "details": {"name": "x", "kind": "secrets"}}`
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.Method]++
		n := asked[r.Method]
		w.Header().Set("Content-Type", "application/json")
		switch {
		case n == 1:
			w.Header().Set("Content-Length", "1000")
			if r.Method == http.MethodPost {
				w.WriteHeader(http.StatusCreated)
			}
			_, _ = w.Write([]byte(secret[:20]))
		case n == 2:
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = fmt.Fprintf(w, status, metav1.StatusReasonTooManyRequests, http.StatusTooManyRequests)
		case r.Method == http.MethodPost:
			w.WriteHeader(http.StatusConflict)
			_, _ = fmt.Fprintf(w, status, metav1.StatusReasonAlreadyExists, http.StatusConflict)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprintf(w, status, metav1.StatusReasonNotFound, http.StatusNotFound)
		default:
			_, _ = w.Write([]byte(secret))
		}
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	config.Wrap(wholeAnswers)
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	secrets := core.CoreV1().Secrets("n")
	got, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{})
	if err != nil || got.UID != "u1" || asked[http.MethodPost] != 3 || asked[http.MethodGet] != 3 {
		t.Errorf("create: %v, %v; %v", got, err, asked)
	}
	clear(asked)
	if got, err := secrets.Get(t.Context(), "x", metav1.GetOptions{}); err != nil || got.UID != "u1" || asked[http.MethodGet] != 3 {
		t.Errorf("get: %v, %v; %v", got, err, asked)
	}
	if got, err := secrets.Patch(t.Context(), "x", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{}); err != nil || got.UID != "u1" || asked[http.MethodPatch] != 3 {
		t.Errorf("patch: %v, %v; %v", got, err, asked)
	}
	if err := secrets.Delete(t.Context(), "x", metav1.DeleteOptions{}); !apierrors.IsNotFound(err) || asked[http.MethodDelete] != 3 {
		t.Errorf("delete: %v; %v", err, asked)
	}
}
