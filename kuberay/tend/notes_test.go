package tend

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
)

// TestNoteIsWrittenAgain: an API server that cannot take the note of the submission now gets it once more.
func TestNoteIsWrittenAgain(t *testing.T) {
	var asked atomic.Int32
	ctx, done := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "InternalError", "code": 500, "message": "etcdserver: leader changed"}`))
			return
		}
		_, _ = w.Write([]byte(`{"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}}`))
		done()
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := New(&api.Client{Namespace: "n", Config: config, Core: core}, "x", slog.New(slog.DiscardHandler), nil)
	c.notes <- map[string]string{objects.SubmittedKey: "1"}
	c.Run(ctx)
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}
