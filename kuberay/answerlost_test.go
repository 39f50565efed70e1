package kuberay

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
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
	c := &client{namespace: "n", config: config, core: core}
	if err := c.noteCommit(context.Background(), "x", keeper.Commit{}); err != nil || asked != 2 {
		t.Errorf("%d requests, %v", asked, err)
	}
}

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
	w := &watcher{l: New(Config{}), c: &client{namespace: "n", config: config, core: core}, id: "x", notes: make(chan map[string]string, 1)}
	w.notes <- map[string]string{submittedKey: "1"}
	w.takeNotes(ctx)
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}
