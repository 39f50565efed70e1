package slurm

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
)

// fate is what the controller says of a cluster's job.
type fate int

const (
	unknown fate = iota // it knows no such job (any more)
	alive               // it waits, runs, or still holds nodes
	gone                // it ended and holds nothing
)

// ask is the fate by an answer at most age old. A job that waits although its keeper has spoken was requeued, if the answer is the later news.
func (c *cluster) ask(ctx context.Context, age time.Duration) (fate, Job, error) {
	// An answer from before the launch does not know its job.
	jobs, at, err := c.l.queue.askWhen(ctx, min(age, max(0, time.Since(c.record.Created))))
	if err != nil {
		return unknown, Job{}, err
	}
	j, found := c.find(jobs)
	if found {
		c.job, c.released = j.leader(), j.released()
	}
	switch {
	case !found:
		return unknown, j, nil
	case j.Ended():
		return gone, j, nil
	case j.State == StatePending && age > 0 && c.spokeAfter(at):
		return c.ask(ctx, now)
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

// over says whether the cluster has ended and holds nothing. One that ended without a result gets one.
func (c *cluster) over(ctx context.Context) (bool, error) {
	over, _, err := c.overOr(ctx, time.Second)
	return over, err
}

// overOr also returns the job of a cluster that has not ended, by an answer at most age old.
func (c *cluster) overOr(ctx context.Context, age time.Duration) (bool, Job, error) {
	began := time.Now()
	for {
		f, j, err := c.ask(ctx, age)
		switch {
		case err != nil && c.result != nil && c.resultAge > time.Hour:
			return true, j, nil // whatever the controller knows of it
		case err != nil:
			return false, j, c.l.site.unreachable(err)
		case f == alive:
			return false, j, nil
		case c.result != nil:
			return true, j, c.settle(ctx, j)
		case f == gone:
			return true, j, c.bury(ctx, c.verdict(ctx, j))
		case time.Since(began) > believeAfter:
			return true, j, c.bury(ctx, verdict{cause: keeper.CauseLost, message: "Slurm does not know its job any more"})
		}
		sleep.For(ctx, askAgain)
		if err := ctx.Err(); err != nil {
			return false, j, err
		}
		if err := c.look(ctx); err != nil {
			return false, j, err
		}
		if c.record == nil {
			return true, j, nil
		}
	}
}

// verdict is how a cluster ended that could not tell itself.
type verdict struct {
	cause, message string
	final          bool // the same again would end the same way, whatever the cause
}

// verdictOf is what Slurm says of a job that ended without a result.
func verdictOf(j Job) verdict {
	switch j.State {
	case StateCancelled:
		return verdict{cause: keeper.CauseInterrupted, message: "its job was cancelled"}
	case StateTimeout:
		return verdict{cause: keeper.CauseTimeLimit, message: "its job reached Slurm's time limit"}
	case StateDeadline:
		return verdict{cause: keeper.CauseQueue, message: "its job could not start early enough for lifetime.queue"}
	case StatePreempted:
		return verdict{cause: keeper.CausePreempted, message: "its job was preempted"}
	case StateNodeFail:
		return verdict{cause: keeper.CauseLost, message: "a node of its job failed"}
	case StateBootFail:
		return verdict{cause: keeper.CauseStartFailed, message: "the nodes of its job could not be booted"}
	case StateOOM:
		return verdict{cause: keeper.CauseLost, message: "its job used more memory than it was given"}
	case StateFailed:
		if j.Signal != 0 || j.Reason == "RaisedSignal" || j.Reason == "JobLaunchFailure" {
			return verdict{cause: keeper.CauseLost, message: "the keeper was killed"}
		}
		return verdict{cause: keeper.CauseLost, message: scriptFailed}
	}
	return verdict{cause: keeper.CauseLost, message: "its job ended (" + j.State + ") without a result"}
}

// scriptFailed is all that Slurm knows of it.
const scriptFailed = "the batch script failed"

// settle is what is left to do when the keeper has written its result and the job is gone: Slurm may know better why it ended.
func (c *cluster) settle(ctx context.Context, j Job) error {
	e := c.result.Exit
	switch j.State {
	case StateCancelled, StateTimeout, StatePreempted, StateNodeFail:
		if e != nil && e.Cause == keeper.CauseInterrupted && strings.HasPrefix(e.Message, launcher.Signalled) {
			return c.overrule(ctx, c.fateOf(ctx, j))
		}
	}
	return c.tidy(ctx)
}

// overrule ends a cluster that was between two attempts: the result of the last one gets another cause.
func (c *cluster) overrule(ctx context.Context, v verdict) error {
	c.result.Exit = exitOf(c.result, v)
	c.result.Reason = keeper.Reason{Code: v.cause, Message: v.message}
	if n := len(c.result.Attempts); n > 0 {
		c.result.Attempts[n-1].Cause, c.result.Attempts[n-1].Message = v.cause, v.message
	}
	if err := c.l.site.files.writeJSON(ctx, path.Join(c.attemptDir(), keeper.ResultFile), c.result, false); err != nil {
		return c.writeFailed(err)
	}
	return c.tidy(ctx)
}

// conclude ends a cluster whose waiting job was cancelled.
func (c *cluster) conclude(ctx context.Context, v verdict) error {
	if c.result != nil {
		return c.overrule(ctx, v)
	}
	return c.bury(ctx, v)
}

// exitOf is the exit by a verdict, where the keeper was not ending the cluster for another reason when it died.
func exitOf(st *keeper.State, v verdict) *keeper.Exit {
	e := launcher.Conclude(st, v.cause, v.message)
	e.Retryable = e.Retryable && !v.final
	return e
}

// bury writes the result in a dead keeper's place. If the keeper, or another client, was faster, theirs stays.
func (c *cluster) bury(ctx context.Context, v verdict) error {
	st := c.concluded(v)
	var err error
	if st.Log, err = c.saved(ctx, st.Job); err != nil {
		return err
	}
	err = c.l.site.files.writeJSON(ctx, path.Join(c.attemptDir(), keeper.ResultFile), st, true)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return c.writeFailed(err)
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	return c.tidy(ctx)
}

// concluded is the last state of a cluster whose keeper is dead. The length of its output is not in it.
func (c *cluster) concluded(v verdict) *keeper.State {
	st := c.state
	if st == nil {
		st = firstState(c.record.Spec)
	}
	at, exit := c.endedAt(st), exitOf(st, v)
	st.Revision++
	st.Phase, st.Since, st.Reason = keeper.PhaseGone, at, keeper.Reason{Code: exit.Cause, Message: exit.Message}
	st.Timeline = append(st.Timeline, keeper.Event{At: at, Attempt: st.Attempt, Event: "phase", To: st.Phase, Code: exit.Cause, Message: exit.Message})
	st.Exit = exit
	st.Attempts = attemptsWith(st, at)
	return st
}

// endedAt is when a cluster ended whose keeper is dead: when Slurm released its nodes, as far as that is known.
func (c *cluster) endedAt(st *keeper.State) time.Time {
	at := time.Now().UTC()
	if released := c.released; !released.IsZero() && released.Before(at) {
		at = released
	}
	if n := len(st.Timeline); n > 0 && at.Before(st.Timeline[n-1].At) {
		at = st.Timeline[n-1].At
	}
	return at
}

// attemptsWith are all attempts, also the one whose keeper died.
func attemptsWith(st *keeper.State, at time.Time) []keeper.Attempt {
	if st.Job == nil || st.Job.SubmissionID == "" || len(st.Attempts) > 0 && st.Attempts[len(st.Attempts)-1].Attempt == st.Attempt {
		return st.Attempts
	}
	last := keeper.Attempt{Attempt: st.Attempt, SubmissionID: st.Job.SubmissionID, Start: st.Job.StartTime, End: &at, Cause: st.Exit.Cause, Message: st.Exit.Message}
	if st.Exit.Origin == keeper.OriginDriver {
		last.End, last.ExitCode = st.Job.EndTime, &st.Exit.Code
	}
	return append(st.Attempts, last)
}

// saved completes the copy of the driver's output by what its node has saved, and says how much there is. Of what was not saved nobody knows the length.
func (c *cluster) saved(ctx context.Context, job *keeper.JobState) (*keeper.Log, error) {
	var reply struct {
		Size  int64 `json:"size"`
		Whole bool  `json:"whole"`
	}
	name := ""
	if job != nil {
		name = job.LogFile
	}
	if err := c.l.site.files.call(ctx, "salvage", map[string]any{"attempt": c.attemptDir(), "log": name}, &reply); err != nil {
		return nil, c.writeFailed(err)
	}
	if reply.Whole || job == nil || job.State == keeper.JobWaiting || job.Terminal() {
		return &keeper.Log{Bytes: reply.Size}, nil
	}
	return &keeper.Log{Bytes: reply.Size, Missing: [][2]int64{{reply.Size, -1}}}, nil
}

// reserveFile is the room that a keeper holds for its result.
const reserveFile = ".reserve"

// tidy removes what must not outlive the cluster, where its keeper could not.
func (c *cluster) tidy(ctx context.Context) error {
	dir := c.attemptDir()
	paths := []string{c.path(seedDir), path.Join(dir, keeper.TokenFile), path.Join(dir, keeper.SecretsFile)}
	names, err := c.l.site.files.names(ctx, dir)
	if err != nil {
		return c.l.cut(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, orders.PackagePrefix) || name == reserveFile || strings.HasSuffix(name, ".tmp") {
			paths = append(paths, path.Join(dir, name))
		}
	}
	if err := c.l.site.files.remove(ctx, paths...); err != nil {
		return c.writeFailed(err)
	}
	c.l.ways.drop(c.name)
	return nil
}

// firstState is what a cluster is before its keeper has said anything.
func firstState(s *spec.ClusterSpec) *keeper.State {
	st := &keeper.State{Name: s.Name, Launcher: spec.LauncherSlurm, SpecHash: spec.Hash(s), Attempt: 1}
	for _, g := range s.NodeGroups() {
		if g.Count > 0 {
			group := keeper.GroupState{Name: g.Name, Wanted: g.Count}
			if g.Tasks { // as the keeper counts: those of a head without tasks are nobody's
				group.GPUs = float64(g.GPUs)
			}
			st.Groups = append(st.Groups, group)
		}
	}
	return st
}
