package kuberay

import (
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

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
	if first[objects.StateKey] != notesOf(st)[objects.StateKey] {
		t.Error("each renewal is a note")
	}
	if len(first[objects.StateKey]) > 4096 || first[objects.SubmittedKey] != "2" || !strings.Contains(first[objects.StateKey], `"to":"Ready"`) {
		t.Errorf("%d bytes, %v", len(first[objects.StateKey]), first)
	}
	st.Deadlines.Max = &later
	for range 5000 {
		st.Timeline = append(st.Timeline, runstate.Event{Kind: runstate.EventNode, Code: "w-1234", To: runstate.NodeAlive, Message: "a node of a large cluster"})
	}
	large := notesOf(st)
	if text := large[objects.StateKey]; len(text) > 4096 || !strings.Contains(text, `"to":"Ready"`) || len(st.Timeline) != 5001 {
		t.Errorf("of many nodes: %d bytes, %.300s", len(text), text)
	}
	st.Timeline[0].Message = strings.Repeat("m", noteLimit)
	larger := notesOf(st)
	if _, noted := larger[objects.StateKey]; noted {
		t.Error("a note that is too large for a Secret")
	}
	for _, key := range []string{objects.SubmittedKey, objects.DeadlinesKey} {
		if large[key] == "" || larger[key] != large[key] {
			t.Errorf("%s: %q, of a state that is too large %q", key, large[key], larger[key])
		}
	}
}
