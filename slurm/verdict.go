package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// verdict is why a cluster without a result has ended, whose job has ended or is not known any more. If the batch script failed, what it printed says why: where
// there is no state document, the keeper could not be started, because the interpreter is missing, too old or not executable.
func (c *cluster) verdict(ctx context.Context, f fate, j controller.Job) runstate.Verdict {
	if f != fateGone && !c.inside() {
		return runstate.Verdict{Cause: runstate.CauseLost, Message: "Slurm does not know its job any more"}
	}
	v := c.verdictByFiles(ctx, j)
	if j.State != controller.StateFailed || j.Signal != 0 || v.Message != scriptFailed {
		return v
	}
	said, file := c.scriptOutput(ctx), c.run.Path(script.OutFile)
	if said == "" {
		said = "it printed nothing"
	}
	if c.run.State == nil {
		return runstate.Verdict{Final: true, Cause: runstate.CauseStartFailed, Message: fmt.Sprintf("the batch script could not start the keeper with %s: %s; correct ray.python or slurm.python (all of its output: %s)", script.PlanOf(c.run, 0).HostPython(), said, file)}
	}
	return runstate.Verdict{Cause: v.Cause, Message: fmt.Sprintf("%s: %s (all of its output: %s)", v.Message, said, file)}
}

// verdictByFiles is why a cluster ended, by Slurm's state of its job and by the run's files: a job that was cancelled while it waited has the noted reason, or was
// cancelled because no other attempt might follow.
func (c *cluster) verdictByFiles(ctx context.Context, j controller.Job) runstate.Verdict {
	if c.inside() {
		return verdictInside(j)
	}
	v := verdictByState(j)
	if j.State != controller.StateCancelled {
		return v
	}
	if noted := c.run.Withdrawn(ctx); noted != nil {
		return *noted
	}
	if c.run.LastWord() == nil {
		return c.cancelledBy(ctx, j, v)
	}
	if a, err := c.run.NextAttempt(ctx); err == nil && a.Cause == runstate.CauseLost && a.Told && !a.Allowed {
		return runstate.Verdict{Cause: a.Cause, Message: a.Message}
	}
	return c.cancelledBy(ctx, j, v)
}

// cancelledBy is the verdict that names who cancelled the job, if accounting knows it; else v. slurmrestd has no such request.
func (c *cluster) cancelledBy(ctx context.Context, j controller.Job, v runstate.Verdict) runstate.Verdict {
	if accounting, ok := c.l.site.Controller.(interface {
		CancelledBy(ctx context.Context, id int) string
	}); ok {
		if name := accounting.CancelledBy(ctx, j.Leader()); name != "" {
			return runstate.Verdict{Cause: runstate.CauseInterrupted, Message: fmt.Sprintf("its job was cancelled by %s", name)}
		}
	}
	return v
}

// verdictByState derives the end from Slurm's state of a job that ended without a result.
func verdictByState(j controller.Job) runstate.Verdict {
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

// verdictInside is verdictByState for the end of somebody else's allocation, or of the steps in it.
func verdictInside(j controller.Job) runstate.Verdict {
	switch j.State {
	case "", controller.StatePending, controller.StateRunning:
		return runstate.Verdict{Cause: runstate.CauseLost, Message: "its steps ended without a result"}
	case controller.StateCompleted, controller.StateFailed:
		return runstate.Verdict{Cause: runstate.CauseInterrupted, Message: "the allocation that it was in has ended"}
	}
	return verdictByState(j)
}

// verdictOnResult is the verdict on a cluster whose keeper has written its result, and whose job has ended, where Slurm's record of why it ended is more precise. nil: the
// keeper's result stands.
func (c *cluster) verdictOnResult(ctx context.Context, j controller.Job) *runstate.Verdict {
	e := c.run.Result.Exit
	switch j.State {
	case controller.StateCancelled, controller.StateTimeout, controller.StatePreempted, controller.StateNodeFail:
		if e != nil && e.Cause == runstate.CauseInterrupted && runstate.BySignal(e.Message) {
			return ptr.To(c.verdictByFiles(ctx, j))
		}
	}
	return nil
}

// verdictOnWaiting is the verdict on a waiting job that must be cancelled: no attempt is left, Slurm can never start it, or lifetime.queue has passed. Slurm itself
// gives up only what it has a --deadline for (script.Plan.Deadline). nil: the job need not be given up, or the error keeps that from being known.
func (c *cluster) verdictOnWaiting(ctx context.Context, j controller.Job) (*runstate.Verdict, error) {
	if j.State != controller.StatePending {
		return nil, nil
	}
	last, err := c.verdictOnRequeued(ctx, j)
	if last != nil {
		return last, nil
	}
	why, unknown := c.never(ctx, j)
	if why != "" {
		v := cannotStart(why)
		return &v, nil
	}
	limit, bound := c.run.Record.Spec.Lifetime.Queue.Bound()
	if bound && time.Since(c.run.Record.Created) > limit && c.run.LastWord() == nil {
		return &runstate.Verdict{Cause: runstate.CauseQueue, Message: "the cluster was not admitted within lifetime.queue (" + limit.String() + "): " + controller.Explain(j).Message}, nil
	}
	return nil, errors.Join(err, unknown)
}

// cannotStart is the verdict on a job that Slurm can never start.
func cannotStart(why string) runstate.Verdict {
	return runstate.Verdict{Final: true, Cause: runstate.CauseStartFailed, Message: "Slurm can never start its job: " + why}
}

// never returns why the job can never start; "" if it can, or if that is unknown.
func (c *cluster) never(ctx context.Context, j controller.Job) (string, error) {
	switch {
	case controller.Never(j.Reason):
		return controller.Explain(j).Message, nil
	case controller.NodeLimit(j.Reason):
		all, err := c.l.site.Partitions(ctx)
		if err != nil {
			return "", err
		}
		return script.PlanOf(c.run, 0).TooLarge(j.HetOffset, j.Partition, all), nil
	}
	return "", nil
}

// presumeAfter is for how long a shared file system may keep from us what the nodes have written: attributes are cached for up to a minute (nfs(5), acdirmax).
const presumeAfter = time.Minute

// verdictOnRequeued is the verdict on a job that Slurm has queued again although job.restarts allows no further attempt. nil: one is allowed, or the cause is not
// certain yet. The job itself would end when it starts, which may take days.
func (c *cluster) verdictOnRequeued(ctx context.Context, j controller.Job) (*runstate.Verdict, error) {
	if c.run.LastWord() == nil || j.State != controller.StatePending {
		return nil, nil
	}
	a, err := c.run.NextAttempt(ctx)
	if err != nil || a.Allowed || !a.Told && time.Since(j.Submit) < presumeAfter {
		return nil, err
	}
	return &runstate.Verdict{Cause: a.Cause, Message: a.Message}, nil
}

const (
	printedBytes = 4 << 10 // the end of a long output, which is read
	printedLines = 3       // of which are shown
)

// scriptOutput is the last lines that the batch script printed, in one; "" if they cannot be read.
func (c *cluster) scriptOutput(ctx context.Context) string {
	var reply struct {
		Size int64
		Data []byte
	}
	read := func(offset int64) error {
		return c.run.Root.Files.Call(ctx, "read", map[string]any{"path": c.run.Path(script.OutFile), "offset": offset}, &reply)
	}
	err := read(0)
	if err == nil && reply.Size > int64(len(reply.Data)) {
		err = read(reply.Size - printedBytes)
	}
	if err != nil {
		return ""
	}
	var lines []string
	for line := range strings.Lines(string(reply.Data)) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-printedLines):], " | ")
}
