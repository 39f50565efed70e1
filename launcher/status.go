package launcher

import (
	"slices"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// Status is the known state of one cluster at one moment.
type Status struct {
	Name     string            `json:"name"`
	Launcher string            `json:"launcher"`
	Owner    string            `json:"owner,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Ours     bool              `json:"ours"` // false: a Ray cluster that rayctl did not make
	// Uncommitted: its client has not finished the launch, so it runs nothing; if that client has died, it never will.
	Uncommitted bool   `json:"uncommitted,omitempty"`
	Theirs      bool   `json:"theirs,omitempty"` // List only: another user's cluster, where a launcher lists those of several users
	SpecHash    string `json:"specHash,omitempty"`
	Where       string `json:"where,omitempty"` // namespace/name, Slurm job id, keeper's pid

	Phase   runstate.Phase   `json:"phase"`
	Reason  runstate.Reason  `json:"reason"`
	Since   time.Time        `json:"since"`   // of the phase
	Created time.Time        `json:"created"` // of the cluster
	Attempt int              `json:"attempt"` // from 1
	Groups  []runstate.Group `json:"groups,omitempty"`
	Nodes   []runstate.Node  `json:"nodes,omitempty"`
	// GPUs are what was measured of them, by node, also of former ones.
	GPUs []runstate.GPUUse `json:"gpus,omitempty"`
	// Allocations are what was asked of the substrate, also former ones, the oldest first. Before a cluster has a keeper it may be empty.
	Allocations []runstate.Allocation `json:"allocations,omitempty"`
	// FormerAllocations are the sums of nodes of elastic groups that ended long ago and are not listed any more.
	FormerAllocations []runstate.FormerAllocations `json:"formerAllocations,omitempty"`
	// Offers is how many submissions of jobs for nodes wait for a client (Submitter), because the cluster's own nodes may not submit jobs.
	Offers int           `json:"offers,omitempty"`
	Head   runstate.Head `json:"head"`
	Job    *runstate.Job `json:"job,omitempty"` // nil: a cluster without a job of its own
	// OutputDir is RAYCTL_OUTPUT_DIR of the drivers on such a cluster; empty after the end if nothing is left there.
	OutputDir string `json:"outputDir,omitempty"`
	// Submissions are the jobs that run or wait on such a cluster.
	Submissions []runstate.Submission `json:"submissions,omitempty"`
	// EndedSubmissions are the number and the last of those that have ended; nil: none.
	EndedSubmissions *runstate.EndedSubmissions `json:"endedSubmissions,omitempty"`
	Deadlines        runstate.Deadlines         `json:"deadlines"`
	// EndOnDisconnect is the time in seconds after which the keeper ends the cluster if no client renews; 0: never.
	EndOnDisconnect float64            `json:"endOnDisconnect,omitempty"`
	Timeline        []runstate.Event   `json:"timeline,omitempty"`
	Attempts        []runstate.Attempt `json:"attempts,omitempty"`
	Exit            *runstate.Exit     `json:"exit,omitempty"`        // with phase Gone
	Unreachable     string             `json:"unreachable,omitempty"` // set while the substrate does not answer: why
	// Due is an action for Terminate that nobody on the substrate takes: cancel a job that waits in vain, or write the result of a dead keeper.
	// Run carries it out; if no client runs the cluster, the next launch, down or gc does.
	Due *End `json:"due,omitempty"`
}

// Output is RAYCTL_OUTPUT_DIR of the cluster's drivers; "" if there is none.
func (s *Status) Output() string {
	if s.Job != nil {
		return s.Job.OutputDir
	}
	return s.OutputDir
}

// StatusOf converts a keeper's state. The launcher adds the fields that only it has: owner, labels, where, created.
func StatusOf(st *runstate.State) Status {
	s := Status{
		Name: st.Name, Launcher: st.Launcher, Ours: true, SpecHash: st.SpecHash,
		Phase: st.Phase, Reason: st.Reason, Since: st.Since, Attempt: st.Attempt,
		Groups: slices.Clone(st.Groups), Nodes: slices.Clone(st.Nodes), GPUs: slices.Clone(st.GPUs), Allocations: slices.Clone(st.Allocations),
		FormerAllocations: slices.Clone(st.FormerAllocations), Offers: st.Offers, Head: st.Head, Job: clone(st.Job), OutputDir: st.OutputDir, Submissions: slices.Clone(st.Submissions), EndedSubmissions: clone(st.EndedSubmissions),
		Deadlines: st.Deadlines, EndOnDisconnect: st.EndOnDisconnect,
		Timeline: inOrder(st.Timeline), Attempts: slices.Clone(st.Attempts), Exit: clone(st.Exit),
		Uncommitted: !st.Committed && !st.Phase.Ended(),
	}
	if st.Log != nil {
		s.missing(st.Log.Missing)
	}
	switch {
	case s.Phase == "": // the keeper writes its state before it has looked at anything
		s.Phase, s.Reason = runstate.Provisioning, KeeperStarts
	case s.Phase.Ended():
		s.ended()
	}
	return s
}

// missing notes in the job of an ended cluster, as in that of a living one, what the saved output does not have.
func (s *Status) missing(ranges [][2]int64) {
	if s.Job == nil || len(ranges) == 0 {
		return
	}
	s.Job = clone(s.Job)
	s.Job.Missing = slices.Clone(ranges)
}

// KeeperStarts is the reason of a cluster whose keeper has not said anything yet.
var KeeperStarts = runstate.Reason{Code: "StartingKeeper", Message: "the keeper is starting"}

// ended marks allocations, nodes and job as ended with the cluster. The last state of a keeper has them as it saw them last, which may be alive: it ends
// nodes without asking Ray, and where it was killed nobody saw the end.
func (s *Status) ended() {
	s.Submissions = nil
	s.Allocations = runstate.Released(s.Allocations, s.Since)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.State != runstate.NodeDead {
			n.State = runstate.NodeEnded
		}
		if n.Joined != nil && n.Left == nil {
			n.Left = &s.Since
		}
	}
	if s.Job == nil || s.Job.Terminal() {
		return
	}
	if p := clone(s.Job.Prepare); p != nil && (p.State == runstate.JobPending || p.State == runstate.JobRunning) {
		p.State, s.Job.Prepare = endedJob(p.State, s.Exit), p
	}
	s.Job.State = endedJob(s.Job.State, s.Exit)
}

// endedJob is the state of a job that had not ended when its cluster did.
func endedJob(last runstate.JobState, exit *runstate.Exit) runstate.JobState {
	switch {
	case last == runstate.JobWaiting:
		return runstate.JobNotSubmitted
	case exit == nil:
		return runstate.JobStopped
	case exit.Origin == runstate.OriginDriver && exit.Code == 0:
		return runstate.JobSucceeded
	case exit.Origin == runstate.OriginDriver, exit.Cause == runstate.CauseLost, exit.Cause == runstate.CausePreempted, exit.Cause == runstate.CauseSubmitFailed:
		return runstate.JobFailed
	default:
		return runstate.JobStopped
	}
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}
