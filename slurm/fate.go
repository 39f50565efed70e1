package batchjob

import (
	"context"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/controller/queue"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Fate is the state of a cluster's job as the controller reports it.
type Fate int

// Fates of a job.
const (
	Unknown Fate = iota // Slurm has no such job, or has it no longer
	Alive               // it waits, runs, or still holds nodes
	Gone                // it ended and holds nothing
)

// Ask returns the job's fate from an answer at most age old. A PENDING job whose keeper has already written files was requeued, if the answer is newer than those
// files; else the controller is queried again.
func (b *Job) Ask(ctx context.Context, age time.Duration) (Fate, controller.Job, error) {
	if b.Inside() {
		return b.askInside(ctx, age)
	}
	// An answer from before the launch cannot have its job.
	jobs, at, err := b.Site.Queue.AskWhen(ctx, min(age, max(0, time.Since(b.Record.Created))))
	if err != nil {
		return Unknown, controller.Job{}, err
	}
	b.Answered = at
	j, found := b.Find(jobs)
	if found {
		b.JobID, b.Released = j.Leader(), j.Released()
	}
	switch {
	case !found:
		return Unknown, j, nil
	case j.Ended():
		return Gone, j, nil
	case j.State == controller.StatePending && age > 0 && b.spokeAfter(at):
		return b.Ask(ctx, queue.Now)
	default:
		return Alive, j, nil
	}
}

// spokeAfter reports whether the keeper's files were written after that moment.
func (b *Job) spokeAfter(at time.Time) bool {
	ago := time.Since(at)
	return b.Result != nil && b.ResultAge < ago || b.Result == nil && b.State != nil && b.StateAge < ago
}

// A controller that was restarted has lost up to 5 seconds of its state and recovers jobs from the nodes: a job that it does not list
// is queried again before it is taken to have ended.
const (
	BelieveAfter = 12 * time.Second
	AskAgain     = 4 * time.Second
)

// verdictOf derives the end from Slurm's state of a job that ended without a result.
func verdictOf(j controller.Job) runstate.Verdict {
	switch j.State {
	case controller.StateCancelled:
		if j.Dependent() { // Slurm does it where a site sets kill_invalid_depend, or slurm.extraArgs has --kill-on-invalid-dep=yes
			return cannotStart(controller.Explain(j).Message)
		}
		return runstate.Verdict{Cause: runstate.CauseInterrupted, Message: "its job was cancelled, by scancel or an administrator"}
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
		if j.Signal != 0 || strings.HasPrefix(j.Reason, "RaisedSignal") || j.Reason == "JobLaunchFailure" {
			return runstate.Verdict{Cause: runstate.CauseLost, Message: "the keeper was killed"}
		}
		return runstate.Verdict{Cause: runstate.CauseLost, Message: scriptFailed}
	}
	return runstate.Verdict{Cause: runstate.CauseLost, Message: "its job ended (" + j.State + ") without a result"}
}

// scriptFailed is the message for a batch script that failed: Slurm reports no cause.
const scriptFailed = "the batch script failed"

// FirstState is the state of a cluster before its keeper has written one.
func FirstState(r *rundir.Record) *runstate.State {
	s := r.Spec
	st := &runstate.State{Name: s.Name, Launcher: slurmspec.Name, SpecHash: spec.Hash(s), Attempt: 1}
	for _, g := range s.NodeGroups() {
		if g.Max > 0 {
			group := runstate.Group{Name: g.Name, Wanted: g.Min}
			if g.Elastic() {
				group.Min, group.Max = g.Min, g.Max
			}
			if g.Tasks { // as the keeper counts: those of a head without tasks are nobody's
				group.GPUs = float64(g.GPUs)
			}
			st.Groups = append(st.Groups, group)
		}
	}
	st.Allocations = runstate.Asked(nil, st.Groups, s.Head.Early, r.Created)
	return st
}
