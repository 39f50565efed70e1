package kuberay

import (
	"context"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/kuberay/observe"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestReportedEnd: the end that a keeper reported takes precedence over a record that lost it.
func TestReportedEnd(t *testing.T) {
	record := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{objects.AnnotationResult: `{"exit": {"cause": "lost"}}`}}}
	w := &watcher{l: New(Config{}), id: "c", state: &runstate.State{Exit: &runstate.Exit{Cause: "succeeded"}}}
	if st := w.final(t.Context(), &observe.Snapshot{Record: record}); st.Exit.Cause != "succeeded" {
		t.Errorf("%+v", st.Exit)
	}
	w.state.Exit = nil
	if st := w.final(t.Context(), &observe.Snapshot{Record: record}); st.Exit.Cause != "lost" {
		t.Errorf("%+v", st.Exit)
	}
}

// TestAwaitsKeepersState: a status waits for the word of a keeper that runs, for a while, unless that is known not to answer.
func TestAwaitsKeepersState(t *testing.T) {
	now := time.Now()
	runs := &observe.Snapshot{Pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{objects.LabelRole: objects.RoleKeeper}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}}}
	for name, c := range map[string]struct {
		w    *watcher
		o    *observe.Snapshot
		want bool
	}{
		"it runs":            {&watcher{begun: now}, runs, true},
		"there is none":      {&watcher{begun: now}, &observe.Snapshot{}, false},
		"it does not answer": {&watcher{begun: now, mute: true}, runs, false},
		"it is slow":         {&watcher{begun: now.Add(-look)}, runs, false},
		"it has answered":    {&watcher{begun: now, state: &runstate.State{}}, runs, false},
	} {
		c.w.l = New(Config{})
		if got := c.w.awaitsKeeper(c.o); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestReportedEndInterrupted: who stops watching does not wait for a keeper on this machine.
func TestReportedEndInterrupted(t *testing.T) {
	l := New(Config{})
	l.residents["c"] = &residentKeeper{Gone: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if st := (&watcher{l: l, id: "c"}).final(ctx, &observe.Snapshot{}); st != nil {
		t.Errorf("%+v", st)
	}
}
