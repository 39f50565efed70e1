package app

import (
	"fmt"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Watcher shows the phases of one cluster as they change. While the driver runs it is silent, because the output is shown.
type Watcher struct {
	a    *App
	last string
	told bool // that the GPUs do nothing
}

// NewWatcher makes the watcher of one cluster.
func (a *App) NewWatcher() *Watcher { return &Watcher{a: a} }

// See shows a status, if it is news.
func (w *Watcher) See(s launcher.Status) {
	idle := s.Reason.Code == runstate.CodeGPUsDoNothing
	if idle && !w.told {
		w.a.UI.Note("%s: %s", s.Name, s.Reason.Message)
	}
	w.told = idle
	running := s.Job.Preparing() && s.Job.Prepare.State == runstate.JobRunning || s.Job != nil && s.Job.State != runstate.JobWaiting && s.Job.State != runstate.JobPending
	if s.Phase == runstate.Gone || (s.Phase == runstate.Ready && running && s.Unreachable == "") {
		if w.last != "" {
			w.a.UI.Clear()
		}
		w.last = ""
		return
	}
	w.last = PhaseLine(s)
	w.a.UI.Live(w.last, s.Since)
}

// PhaseLine describes a cluster's phase, the reason, and the next step.
func PhaseLine(s launcher.Status) string {
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
	return terminal.OneLine(text)
}
