package tend

import (
	"context"
	"maps"
	"time"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/handover"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// What a keeper in another pod must know of the one before it gets from the record's pod (keeper/rayctl_keeper/kubernetes/record.py). The client that launched the cluster notes it
// in the Secret, too, for as long as it lives: keeper and record may be lost with one node. The keeper itself has no permission in Kubernetes.

// noteAfter is how old a change is when it is noted: several often come together, and the last one comes with the run's end, when no note is needed.
// A submission is noted at once: no other keeper may submit the driver again.
const noteAfter = 5 * time.Second

// noteProgress notes what has changed since the last note. It is called every few seconds, so that what waits is noted, too.
func (t *Cluster) noteProgress(st *runstate.State) {
	if st == nil || st.Exit != nil {
		return
	}
	news := handover.NotesOf(st)
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
	case <-t.notes: // of something older, and not under way yet
	default:
	}
	t.notes <- news
}

// takeNotes writes notes one after the other, so that an older one never replaces a newer. One that could not be written is written again, unless a
// newer one has come, or the client may not write any: a keeper in another pod must know that the job was submitted.
func (t *Cluster) takeNotes(ctx context.Context) {
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
