package kuberay

import (
	"context"
	"maps"
	"time"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// If the keeper's pod is lost, the keeper in the next pod needs the state of the previous keeper. The record's pod sends it (keeper/rayctl_keeper/kubernetes/record.py).
// Both pods may be lost with one node, so the client that launched the cluster also writes notes about the state into the Secret, as long as the client runs. The
// keeper cannot write them: it has no permission in Kubernetes.

// noteAfter is the time between a change and its note: several changes often come together, and the last one comes with the run's end, when no note is needed.
// A submission is noted at once, so that no other keeper submits the driver again.
const noteAfter = 5 * time.Second

// noteProgress hands a note to takeNotes if the state has changed since the last note. It is called every few seconds, so that it also notes a change that it has
// delayed by noteAfter.
func (t *tended) noteProgress(st *runstate.State) {
	if st == nil || st.Exit != nil {
		return
	}
	news := notesOf(st)
	submits := news[objects.SubmittedKey] != t.noted[objects.SubmittedKey]
	if maps.Equal(news, t.noted) {
		t.newSince = time.Time{}
		return
	}
	if t.newSince.IsZero() {
		t.newSince = time.Now()
	}
	if !submits && time.Since(t.newSince) < noteAfter {
		return
	}
	t.noted, t.newSince = news, time.Time{}
	select {
	case <-t.notes: // discards an older note that is not being written yet
	default:
	}
	t.notes <- news
}

// takeNotes writes notes one after the other, so that an older one never replaces a newer one. If a note could not be written, it tries again, until there is a newer
// note or the API server refuses notes of this client: the keeper in the next pod must know that the job was submitted.
func (t *tended) takeNotes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case news := <-t.notes:
			for {
				err := t.c.Note(ctx, string(t.id), news)
				if err != nil {
					t.log.Debug("progress could not be noted", "cluster", t.id, "error", err)
				}
				if err == nil || !api.Passes(err) || !sleep.For(ctx, time.Second) || len(t.notes) > 0 {
					break
				}
			}
		}
	}
}
