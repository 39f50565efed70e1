package launcher

import (
	"slices"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// Status is what is known of one cluster at one moment.
type Status struct {
	Name     string            `json:"name"`
	Launcher string            `json:"launcher"`
	Owner    string            `json:"owner,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Ours     bool              `json:"ours"` // false: a Ray cluster that rayctl did not make
	SpecHash string            `json:"specHash,omitempty"`
	Where    string            `json:"where,omitempty"` // namespace/name, Slurm job id, keeper's pid

	Phase     runstate.Phase     `json:"phase"`
	Reason    runstate.Reason    `json:"reason"`
	Since     time.Time          `json:"since"`   // of the phase
	Created   time.Time          `json:"created"` // of the cluster
	Attempt   int                `json:"attempt"` // from 1
	Groups    []runstate.Group   `json:"groups,omitempty"`
	Nodes     []runstate.Node    `json:"nodes,omitempty"`
	Head      runstate.Head      `json:"head"`
	Job       *runstate.Job      `json:"job,omitempty"` // nil: a cluster without a job of its own
	Deadlines runstate.Deadlines `json:"deadlines"`
	// EndOnDisconnect is the time in seconds after which the keeper ends the cluster if no client renews; 0: never.
	EndOnDisconnect float64            `json:"endOnDisconnect,omitempty"`
	Timeline        []runstate.Event   `json:"timeline,omitempty"`
	Attempts        []runstate.Attempt `json:"attempts,omitempty"`
	Exit            *runstate.Exit     `json:"exit,omitempty"`        // with phase Gone
	Unreachable     string             `json:"unreachable,omitempty"` // set while the substrate does not answer: why
	// Due is what is to be done by Terminate, as nobody on the substrate does it: a job is to be cancelled that waits in vain, or the result of a dead
	// keeper to be written. Run does it; for a cluster that nobody runs the next launch does, or gc.
	Due *End `json:"due,omitempty"`
}

// StatusOf is a keeper's state as a Status. The launcher adds what only it knows: owner, labels, where, created.
func StatusOf(st *runstate.State) Status {
	return Status{
		Name: st.Name, Launcher: st.Launcher, Ours: true, SpecHash: st.SpecHash,
		Phase: st.Phase, Reason: st.Reason, Since: st.Since, Attempt: st.Attempt,
		Groups: slices.Clone(st.Groups), Nodes: slices.Clone(st.Nodes), Head: st.Head, Job: clone(st.Job),
		Deadlines: st.Deadlines, EndOnDisconnect: st.EndOnDisconnect,
		Timeline: slices.Clone(st.Timeline), Attempts: slices.Clone(st.Attempts), Exit: clone(st.Exit),
	}
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}
