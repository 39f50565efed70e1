package kuberay

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestFinal: a keeper that told its end is believed before a record that lost it.
func TestFinal(t *testing.T) {
	record := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationResult: `{"exit": {"cause": "lost"}}`}}}
	w := &watcher{l: New(Config{}), id: "c", state: &runstate.State{Exit: &runstate.Exit{Cause: "succeeded"}}}
	if st := w.final(t.Context(), &snapshot{record: record}); st.Exit.Cause != "succeeded" {
		t.Errorf("%+v", st.Exit)
	}
	w.state.Exit = nil
	if st := w.final(t.Context(), &snapshot{record: record}); st.Exit.Cause != "lost" {
		t.Errorf("%+v", st.Exit)
	}
}

// TestFirstWord: a status waits for the word of a keeper that runs, for a while, unless that is known not to answer.
func TestFirstWord(t *testing.T) {
	now := time.Now()
	runs := &snapshot{pods: []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labelRole: roleKeeper}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}}}
	for name, c := range map[string]struct {
		w    *watcher
		o    *snapshot
		want bool
	}{
		"it runs":            {&watcher{begun: now}, runs, true},
		"there is none":      {&watcher{begun: now}, &snapshot{}, false},
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

// TestAutoscaledGroups: a keeper counts the gang, Kubernetes what there is now.
func TestAutoscaledGroups(t *testing.T) {
	two := int32(2)
	o := scene(func(o *snapshot) {
		w := o.cluster.Spec.WorkerGroupSpecs[0]
		w.Replicas = &two
		o.cluster.Spec.WorkerGroupSpecs = append(o.cluster.Spec.WorkerGroupSpecs[:0], w)
	})
	st := &runstate.State{
		Phase: runstate.Ready, Groups: []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Ready: 1, Wanted: 1, GPUs: 8}},
		Nodes: []runstate.Node{{Group: "head", State: "ALIVE"}, {Group: "w", State: "ALIVE"}, {Group: "w", State: "DEAD"}, {Group: "w", State: "ALIVE"}},
	}
	want := []runstate.Group{{Name: "head", Ready: 1, Wanted: 1}, {Name: "w", Ready: 2, Wanted: 2, GPUs: 8}}
	if got := livingStatus("c", "n", o, st, "").Groups; !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	st.Groups = st.Groups[:1] // a group that may be empty is not in the gang
	if got := livingStatus("c", "n", o, st, "").Groups; len(got) != 2 || got[1].Wanted != 2 {
		t.Errorf("%+v", got)
	}
}

// TestNotes: what a later keeper is to know, without what changes all the time or may be large.
func TestNotes(t *testing.T) {
	now := time.Now()
	st := &runstate.State{
		Revision: 7, Attempt: 2, Job: &runstate.Job{State: runstate.JobRunning}, Nodes: make([]runstate.Node, 5000), LastRenewal: &now,
		Deadlines: runstate.Deadlines{Idle: &now}, Timeline: []runstate.Event{{Kind: "phase", To: "Ready"}},
	}
	first := notesOf(st)
	later := now.Add(time.Second)
	st.Revision, st.LastRenewal, st.Deadlines.Idle = 8, &later, &later
	if first[stateKey] != notesOf(st)[stateKey] {
		t.Error("each renewal is a note")
	}
	if len(first[stateKey]) > 4096 || first[submittedKey] != "2" || !strings.Contains(first[stateKey], `"to":"Ready"`) {
		t.Errorf("%d bytes, %v", len(first[stateKey]), first)
	}
	st.Timeline[0].Message = strings.Repeat("m", noteLimit)
	if notesOf(st) != nil {
		t.Error("a note that is too large for a Secret")
	}
}

// TestFinalInterrupted: who stops watching does not wait for a keeper on this machine.
func TestFinalInterrupted(t *testing.T) {
	l := New(Config{})
	l.residents["c"] = &resident{gone: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if st := (&watcher{l: l, id: "c"}).final(ctx, &snapshot{}); st != nil {
		t.Errorf("%+v", st)
	}
}
