package kuberay

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestLargeStateIsNoted: of a state that no Secret has room for, what is a note of its own is noted, once.
func TestLargeStateIsNoted(t *testing.T) {
	c := newTended(nil, "x", slog.New(slog.DiscardHandler), nil)
	large := &runstate.State{Attempt: 2, Job: &runstate.Job{State: runstate.JobRunning, Message: strings.Repeat("m", 1<<20)}}
	c.noteProgress(large)
	c.noteProgress(large)
	if len(c.notes) != 1 {
		t.Fatalf("%d notes", len(c.notes))
	}
	if news := <-c.notes; news[objects.SubmittedKey] != "2" || len(news) != 1 {
		t.Errorf("noted: %v", news)
	}
	c.noteProgress(large)
	if len(c.notes) != 0 {
		t.Error("the same is noted again")
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
	c := newTended(&api.Client{Namespace: "n", Config: config, Core: core}, "x", slog.New(slog.DiscardHandler), nil)
	c.notes <- map[string]string{objects.SubmittedKey: "1"}
	c.Run(ctx)
	if asked.Load() < 2 {
		t.Errorf("asked %d times", asked.Load())
	}
}
