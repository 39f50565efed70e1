package kuberay

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/kuberay/objects"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// noteLimit bounds a note of the state: a Secret has room for 1 MiB (Kubernetes' documentation, "Secrets"), and has the programs in it, too.
const noteLimit = 256 << 10

// notesOf are the notes about a state. Of one that is too large only the state is left out: that the job was submitted, and the deadlines, are notes of their own.
func notesOf(st *runstate.State) map[string]string {
	news := map[string]string{}
	if text := noteOfState(st); text != "" {
		news[objects.StateKey] = text
	}
	if j := st.Job; j != nil && j.State != runstate.JobWaiting {
		news[objects.SubmittedKey] = strconv.Itoa(st.Attempt)
	}
	if st.Deadlines != (runstate.Deadlines{}) {
		news[objects.DeadlinesKey] = noteOfDeadlines(st.Deadlines)
	}
	return news
}

// noteOfState is a state without its nodes: there may be thousands of them, and the next keeper gets them from Ray. One that is too large also lacks the events of
// nodes; "" where that is not enough.
func noteOfState(st *runstate.State) string {
	known := *st
	known.Nodes, known.GPUs, known.LastRenewal, known.Deadlines.Idle, known.Revision = nil, nil, nil, nil, 0 // or each renewal would be a note
	text, err := json.Marshal(known)
	if err == nil && len(text) > noteLimit {
		known.Timeline = slices.DeleteFunc(slices.Clone(known.Timeline), func(e runstate.Event) bool { return e.Kind == runstate.EventNode })
		text, err = json.Marshal(known)
	}
	if err != nil || len(text) > noteLimit {
		return ""
	}
	return string(text)
}

// noteOfDeadlines are the deadlines that time alone does not move, as keeper/rayctl_keeper/run/limits/limits.py reads them.
func noteOfDeadlines(d runstate.Deadlines) string {
	text, err := json.Marshal(map[string]*time.Time{"max": d.Max, "total": d.Total})
	if err != nil {
		panic("kuberay: " + err.Error()) // impossible: times
	}
	return string(text)
}
