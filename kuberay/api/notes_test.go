package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// TestCommitAnswerLost: the commit is noted once more when the connection ends within the API server's answer, which does not end the launch. The
// server copies an API server's answer to a PATCH that is cut on its way, which cannot be timed on the real one.
func TestCommitAnswerLost(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		if asked == 1 {
			w.Header().Set("Content-Length", "1000")
		}
		_, _ = w.Write([]byte(`{"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "x"}}`))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL}
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := &Client{Namespace: "n", Config: config, Core: core}
	if err := c.NoteCommit(context.Background(), "x", keeper.Commit{}); err != nil || asked != 2 {
		t.Errorf("%d requests, %v", asked, err)
	}
}
