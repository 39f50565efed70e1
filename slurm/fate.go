package slurm

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
)

// fate is what the controller says of a cluster's job.
type fate int

const (
	unknown fate = iota // it knows no such job (any more)
	alive               // it waits, runs, or still holds nodes
	gone                // it ended and holds nothing
)

// ask is the fate by an answer at most age old. A job that waits although its keeper has spoken was requeued, if the answer is the later news.
func (c *cluster) ask(ctx context.Context, age time.Duration) (fate, controller.Job, error) {
	// An answer from before the launch does not know its job.
	jobs, at, err := c.l.queue.AskWhen(ctx, min(age, max(0, time.Since(c.record.Created))))
	if err != nil {
		return unknown, controller.Job{}, err
	}
	j, found := c.find(jobs)
	if found {
		c.job, c.released = j.Leader(), j.Released()
	}
	switch {
	case !found:
		return unknown, j, nil
	case j.Ended():
		return gone, j, nil
	case j.State == controller.StatePending && age > 0 && c.spokeAfter(at):
		return c.ask(ctx, controller.Now)
	default:
		return alive, j, nil
	}
}

// spokeAfter says whether the keeper's files were written after that moment.
func (c *cluster) spokeAfter(at time.Time) bool {
	ago := time.Since(at)
	return c.result != nil && c.resultAge < ago || c.result == nil && c.state != nil && c.stateAge < ago
}

// A controller that was restarted has lost up to 5 seconds of its state and recovers jobs from the nodes: an unknown job is asked
// for again before it is believed to be gone.
const (
	believeAfter = 12 * time.Second
	askAgain     = 4 * time.Second
)

// verdictOf is what Slurm says of a job that ended without a result.
func verdictOf(j controller.Job) runstate.Verdict {
	switch j.State {
	case controller.StateCancelled:
		return runstate.Verdict{Cause: runstate.CauseInterrupted, Message: "its job was cancelled"}
	case controller.StateTimeout:
		return runstate.Verdict{Cause: runstate.CauseTimeLimit, Message: "its job reached Slurm's time limit"}
	case controller.StateDeadline:
		return runstate.Verdict{Cause: runstate.CauseQueue, Message: "its job could not start early enough for lifetime.queue"}
	case controller.StatePreempted:
		return runstate.Verdict{Cause: runstate.CausePreempted, Message: "its job was preempted"}
	case controller.StateNodeFail:
		return runstate.Verdict{Cause: runstate.CauseLost, Message: "a node of its job failed"}
	case controller.StateBootFail:
		return runstate.Verdict{Cause: runstate.CauseStartFailed, Message: "the nodes of its job could not be booted"}
	case controller.StateOOM:
		return runstate.Verdict{Cause: runstate.CauseLost, Message: "its job used more memory than it was given"}
	case controller.StateFailed:
		if j.Signal != 0 || j.Reason == "RaisedSignal" || j.Reason == "JobLaunchFailure" {
			return runstate.Verdict{Cause: runstate.CauseLost, Message: "the keeper was killed"}
		}
		return runstate.Verdict{Cause: runstate.CauseLost, Message: scriptFailed}
	}
	return runstate.Verdict{Cause: runstate.CauseLost, Message: "its job ended (" + j.State + ") without a result"}
}

// scriptFailed is all that Slurm knows of it.
const scriptFailed = "the batch script failed"

// firstState is what a cluster is before its keeper has said anything.
func firstState(s *spec.ClusterSpec) *runstate.State {
	st := &runstate.State{Name: s.Name, Launcher: spec.LauncherSlurm, SpecHash: spec.Hash(s), Attempt: 1}
	for _, g := range s.NodeGroups() {
		if g.Count > 0 {
			group := runstate.Group{Name: g.Name, Wanted: g.Count}
			if g.Tasks { // as the keeper counts: those of a head without tasks are nobody's
				group.GPUs = float64(g.GPUs)
			}
			st.Groups = append(st.Groups, group)
		}
	}
	return st
}
