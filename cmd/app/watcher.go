package app

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Watcher shows the phases of one cluster as they change. While the driver runs, whose output is shown, it reports only lost workers, new attempts, idle
// GPUs and what waits for resources that no node can have.
type Watcher struct {
	ui     *terminal.UI
	last   string
	told   bool // that the GPUs do nothing
	unmet  unmet
	losses losses
	again  restarts
}

// NewWatcher makes the watcher of one cluster.
func NewWatcher(ui *terminal.UI) *Watcher { return &Watcher{ui: ui} }

// Allow tells what job.restarts of the run allows, so that a new attempt is shown with what is left.
func (w *Watcher) Allow(r spec.Restarts) { w.again.limit = &r }

// See shows a status, if it is news.
func (w *Watcher) See(s launcher.Status) {
	idle := s.Reason.Code == runstate.ReasonGPUsDoNothing
	if idle && !w.told {
		w.ui.Note("%s: %s", s.Name, s.Reason.Message)
	}
	w.told = idle
	w.unmet.tell(w.ui, s)
	for _, sentence := range slices.Concat(w.losses.news(s), w.again.news(s)) {
		w.ui.Warn("%s", sentence)
	}
	running := s.Job.Preparing() && s.Job.Prepare.State == runstate.JobRunning || s.Job != nil && s.Job.State != runstate.JobWaiting && s.Job.State != runstate.JobPending
	if s.Phase == runstate.Gone || (s.Phase == runstate.Ready && running && s.Unreachable == "") {
		if w.last != "" {
			w.ui.Clear()
		}
		w.last = ""
		return
	}
	w.last = PhaseLine(s)
	w.ui.Live(w.last, s.Since, GroupRows(s)...)
}

// PhaseLine describes a cluster's phase, the reason, and the next step.
func PhaseLine(s launcher.Status) string {
	text := s.Phase.Word()
	if s.Attempt > 1 {
		text = fmt.Sprintf("%s (attempt %d)", text, s.Attempt)
	}
	reason := s.Reason.Message
	if s.Phase == runstate.Ready && reason == "" {
		reason = submittingLine(s.Job)
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

// mostGroupRows is how many groups a start shows.
const mostGroupRows = 8

// GroupRows is a row for each group of a cluster that starts and has more than one group with required nodes: how many of them are alive, and what the first other one says.
func GroupRows(s launcher.Status) (rows []string) {
	if !slices.Contains([]runstate.Phase{runstate.Queued, runstate.Provisioning, runstate.Starting}, s.Phase) {
		return nil
	}
	groups := slices.DeleteFunc(slices.Clone(s.Groups), func(g runstate.Group) bool { return g.Required() == 0 })
	if len(groups) < 2 {
		return nil
	}
	widest := 0
	for _, g := range groups {
		widest = max(widest, len(g.Name))
	}
	for i, g := range groups {
		if i == mostGroupRows-1 && len(groups) > mostGroupRows {
			return append(rows, fmt.Sprintf("  and %d more groups", len(groups)-i))
		}
		row := fmt.Sprintf("  %-*s   %d of %d alive", widest, g.Name, min(g.Ready, g.Required()), g.Required())
		waits := func(n runstate.Node) bool {
			return n.Group == g.Name && n.State != runstate.NodeAlive && n.Message != ""
		}
		if at := slices.IndexFunc(s.Nodes, waits); at >= 0 {
			row += terminal.OneLine(": " + s.Nodes[at].Name + ": " + s.Nodes[at].Message)
		}
		rows = append(rows, terminal.Clean(row))
	}
	return rows
}

// submittingLine is what a Ready cluster with a job waits for, "" if that is nothing any more.
func submittingLine(job *runstate.Job) string {
	switch {
	case job == nil || job.Preparing() && job.Prepare.State == runstate.JobRunning:
		return ""
	case job.State == runstate.JobWaiting && job.Prepare != nil && !job.Prepare.State.Terminal():
		return "submitting job.prepare"
	case job.State == runstate.JobWaiting:
		return "submitting the job"
	case job.State == runstate.JobPending && job.Reserves != "":
		return "Ray waits for a node with " + job.Reserves + " free for the driver, or prepares the job's environment"
	case job.State == runstate.JobPending:
		return "Ray prepares the job's environment, with its packages and files, and starts it"
	}
	return ""
}

// losses finds in successive statuses of a cluster the workers that were lost since the first one.
type losses struct {
	begun bool
	told  map[loss]bool
}

// loss is one loss of a node. A node can be lost again, because a node that is started again has the same name.
type loss struct {
	attempt int
	node    string
	at      time.Time
}

// news returns a sentence for each worker that was lost since the status before. The first status has none: what happened before somebody watched is in
// `rayctl status`.
func (l *losses) news(s launcher.Status) (sentences []string) {
	if l.told == nil {
		l.told = map[loss]bool{}
	}
	for _, e := range lostNodes(s) {
		key := loss{e.Attempt, e.Code, e.At}
		if l.told[key] {
			continue
		}
		l.told[key] = true
		if l.begun {
			sentences = append(sentences, lostSentence(s, e))
		}
	}
	l.begun = true
	return sentences
}

// lostNodes returns the events of the workers that were lost. A keeper may note one loss twice, first as the end of a process and then in Ray's words. A head is left
// out, because the phase shows its loss, and so are nodes that ended because the cluster was ending.
func lostNodes(s launcher.Status) (lost []runstate.Event) {
	type key struct {
		attempt int
		node    string
	}
	gone, ending := map[key]bool{}, false
	for _, e := range s.Timeline {
		switch {
		case e.Kind == runstate.EventPhase:
			ending = slices.Contains([]runstate.Phase{runstate.Draining, runstate.Gone, runstate.Lost}, runstate.Phase(e.To))
		case e.Kind == runstate.EventNode && e.To != runstate.NodeDead:
			delete(gone, key{e.Attempt, e.Code})
			if !ending && strings.HasPrefix(e.Message, runstate.StartedAgain) {
				lost = append(lost, e)
			}
		case e.Kind == runstate.EventNode && !ending && !gone[key{e.Attempt, e.Code}] && !isHead(s, e.Code):
			gone[key{e.Attempt, e.Code}] = true
			lost = append(lost, e)
		}
	}
	return lost
}

// isHead goes by Ray's id: a cluster of one group has the head in it, and Kubernetes names pods in its own way.
func isHead(s launcher.Status, node string) bool {
	return s.Head.NodeID != "" && slices.ContainsFunc(s.Nodes, func(n runstate.Node) bool { return n.Name == node && n.NodeID == s.Head.NodeID })
}

func lostSentence(s launcher.Status, e runstate.Event) string {
	message, again := strings.CutPrefix(terminal.OneLine(e.Message), runstate.StartedAgain)
	cause := cmp.Or(strings.Trim(message, ":. "), "its cause is not known")
	if again { // what ran on it is lost all the same
		return fmt.Sprintf("%s: node %s was lost and started again: %s", s.Name, e.Code, cause)
	}
	if s.Phase == runstate.Ready && s.Job != nil && s.Job.State == runstate.JobRunning {
		return fmt.Sprintf("%s: node %s is lost: %s; the driver continues", s.Name, e.Code, cause)
	}
	return fmt.Sprintf("%s: node %s is lost: %s", s.Name, e.Code, cause)
}
