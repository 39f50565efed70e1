package kuberay

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// TestFinal: a keeper that told its end is believed before a record that lost it.
func TestFinal(t *testing.T) {
	record := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationResult: `{"exit": {"cause": "lost"}}`}}}
	w := &watcher{l: New(Config{}), id: "c", state: &keeper.State{Exit: &keeper.Exit{Cause: "succeeded"}}}
	if st := w.final(t.Context(), &observed{record: record}); st.Exit.Cause != "succeeded" {
		t.Errorf("%+v", st.Exit)
	}
	w.state.Exit = nil
	if st := w.final(t.Context(), &observed{record: record}); st.Exit.Cause != "lost" {
		t.Errorf("%+v", st.Exit)
	}
}

// TestFinalInterrupted: who stops watching does not wait for a keeper on this machine.
func TestFinalInterrupted(t *testing.T) {
	l := New(Config{})
	l.residents["c"] = &resident{gone: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if st := (&watcher{l: l, id: "c"}).final(ctx, &observed{}); st != nil {
		t.Errorf("%+v", st)
	}
}
