package cmd

import (
	"fmt"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// watcher shows the phases of one cluster as they change. While the driver runs it is silent, because the output is shown.
type watcher struct {
	a    *App
	last string
}

func (a *App) newWatcher() *watcher { return &watcher{a: a} }

func (w *watcher) see(s launcher.Status) {
	running := s.Job != nil && s.Job.State != runstate.JobWaiting && s.Job.State != runstate.JobPending
	if s.Phase == runstate.Gone || (s.Phase == runstate.Ready && running && s.Unreachable == "") {
		if w.last != "" {
			w.a.ui.clear()
		}
		w.last = ""
		return
	}
	w.last = phaseLine(s)
	w.a.ui.live(w.last, s.Since)
}

// phaseLine describes a cluster's phase, the reason, and the next step.
func phaseLine(s launcher.Status) string {
	text := string(s.Phase)
	if s.Attempt > 1 {
		text = fmt.Sprintf("%s (attempt %d)", text, s.Attempt)
	}
	reason := s.Reason.Message
	if s.Phase == runstate.Ready && s.Job != nil && reason == "" {
		reason = "submitting the job"
	}
	if reason != "" {
		text += ": " + reason
	}
	if s.Reason.Hint != "" {
		text += ": " + s.Reason.Hint
	}
	if s.Unreachable != "" {
		text += " [not reachable: " + s.Unreachable + "]"
	}
	return oneLine(text)
}
