package kuberay

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
)

// What a keeper in another pod must know of the one before it gets from the record's pod (pod/record.py). The client that launched the cluster notes it
// in the Secret, too, for as long as it lives: keeper and record may be lost with one node. The keeper itself has no permission in Kubernetes.

// noteLimit bounds a note of the state: a Secret has room for 1 MiB (Kubernetes' documentation, "Secrets"), and has the programs in it, too.
const noteLimit = 256 << 10

// noteProgress notes what has changed since the last note.
func (w *watcher) noteProgress() {
	if w.state == nil || w.state.Exit != nil {
		return
	}
	if news := notesOf(w.state); news[stateKey] != "" && w.noted != news[stateKey] {
		w.noted = news[stateKey]
		select {
		case <-w.notes: // of something older, and not under way yet
		default:
		}
		w.notes <- news
	}
}

// notesOf are the notes about a state. The nodes are left out: there may be thousands of them, and the next keeper gets them from Ray.
func notesOf(st *runstate.State) map[string]string {
	known := *st
	known.Nodes, known.LastRenewal, known.Deadlines.Idle, known.Revision = nil, nil, nil, 0 // or each renewal would be a note
	text, err := json.Marshal(known)
	if err != nil || len(text) > noteLimit {
		return nil
	}
	news := map[string]string{stateKey: string(text)}
	if j := st.Job; j != nil && j.State != runstate.JobWaiting {
		news[submittedKey] = strconv.Itoa(st.Attempt)
	}
	if st.Deadlines != (runstate.Deadlines{}) {
		news[deadlinesKey] = noteOf(st.Deadlines)
	}
	return news
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
				err := w.c.note(ctx, string(w.id), news)
				if err != nil {
					w.l.log.Debug("progress could not be noted", "cluster", w.id, "error", err)
				}
				if !sleep.For(ctx, time.Second) || err == nil || !passes(err) || len(w.notes) > 0 { // a large cluster's nodes come one by one
					break
				}
			}
		}
	}
}

// noteOf are the deadlines that time alone does not move, as templates/keeper_limits.py reads them.
func noteOf(d runstate.Deadlines) string {
	text, err := json.Marshal(map[string]*time.Time{"max": d.Max, "total": d.Total})
	if err != nil {
		panic("kuberay: " + err.Error()) // impossible: times
	}
	return string(text)
}

// note puts texts into the cluster's Secret.
func (c *client) note(ctx context.Context, name string, texts map[string]string) error {
	patch, err := json.Marshal(map[string]any{"stringData": texts})
	if err != nil {
		return fmt.Errorf("encode a note: %w", err)
	}
	_, err = c.core.CoreV1().Secrets(c.namespace).Patch(ctx, secretName(name), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: managedBy})
	return explain(err, "patch", "secrets", c)
}
