package handover

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
	first := NotesOf(st)
	later := now.Add(time.Second)
	st.Revision, st.LastRenewal, st.Deadlines.Idle = 8, &later, &later
	if first[objects.StateKey] != NotesOf(st)[objects.StateKey] {
		t.Error("each renewal is a note")
	}
	if len(first[objects.StateKey]) > 4096 || first[objects.SubmittedKey] != "2" || !strings.Contains(first[objects.StateKey], `"to":"Ready"`) {
		t.Errorf("%d bytes, %v", len(first[objects.StateKey]), first)
	}
	st.Timeline[0].Message = strings.Repeat("m", noteLimit)
	if NotesOf(st) != nil {
		t.Error("a note that is too large for a Secret")
	}
}
