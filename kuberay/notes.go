package kuberay

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/kuberay/api"
	"github.com/rayctl/rayctl/kuberay/handover"
	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// What a keeper in another pod must know of the one before it gets from the record's pod (keeper/rayctl_keeper/kubernetes/record.py). The client that launched the cluster notes it
// in the Secret, too, for as long as it lives: keeper and record may be lost with one node. The keeper itself has no permission in Kubernetes.

// noteAfter is how old a change is when it is noted: several often come together, and the last one comes with the run's end, when no note is needed.
// A submission is noted at once: no other keeper may submit the driver again.
const noteAfter = look

// noteProgress notes what has changed since the last note. It is called every look, so that what waits is noted, too.
func (w *watcher) noteProgress() {
	if w.state == nil || w.state.Exit != nil {
		return
	}
	news := handover.NotesOf(w.state)
	submits := news[objects.SubmittedKey] != w.noted[objects.SubmittedKey]
	if news[objects.StateKey] == "" || news[objects.StateKey] == w.noted[objects.StateKey] {
		w.newSince = time.Time{}
		return
	}
	if w.newSince.IsZero() {
		w.newSince = time.Now()
	}
	if !submits && time.Since(w.newSince) < noteAfter {
		return
	}
	w.noted, w.newSince = news, time.Time{}
	select {
	case <-w.notes: // of something older, and not under way yet
	default:
	}
	w.notes <- news
}

// takeNotes writes notes one after the other, so that an older one never replaces a newer. One that could not be written is written again, unless a
// newer one has come, or the client may not write any: a keeper in another pod must know that the job was submitted.
func (w *watcher) takeNotes(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case news := <-w.notes:
			for {
				err := w.c.Note(ctx, string(w.id), news)
				if err != nil {
					w.l.log.Debug("progress could not be noted", "cluster", w.id, "error", err)
				}
				if err == nil || !api.Passes(err) || !sleep.For(ctx, time.Second) || len(w.notes) > 0 {
					break
				}
			}
		}
	}
}
