package slurm

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
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
			return true, j, c.bury(ctx, runstate.Verdict{Cause: runstate.CauseLost, Message: "Slurm does not know its job any more"})
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

// verdictOf is what Slurm says of a job that ended without a result.
func verdictOf(j Job) runstate.Verdict {
	switch j.State {
	case StateCancelled:
		return runstate.Verdict{Cause: runstate.CauseInterrupted, Message: "its job was cancelled"}
	case StateTimeout:
		return runstate.Verdict{Cause: runstate.CauseTimeLimit, Message: "its job reached Slurm's time limit"}
	case StateDeadline:
		return runstate.Verdict{Cause: runstate.CauseQueue, Message: "its job could not start early enough for lifetime.queue"}
	case StatePreempted:
		return runstate.Verdict{Cause: runstate.CausePreempted, Message: "its job was preempted"}
	case StateNodeFail:
		return runstate.Verdict{Cause: runstate.CauseLost, Message: "a node of its job failed"}
	case StateBootFail:
		return runstate.Verdict{Cause: runstate.CauseStartFailed, Message: "the nodes of its job could not be booted"}
	case StateOOM:
		return runstate.Verdict{Cause: runstate.CauseLost, Message: "its job used more memory than it was given"}
	case StateFailed:
		if j.Signal != 0 || j.Reason == "RaisedSignal" || j.Reason == "JobLaunchFailure" {
			return runstate.Verdict{Cause: runstate.CauseLost, Message: "the keeper was killed"}
		}
		return runstate.Verdict{Cause: runstate.CauseLost, Message: scriptFailed}
	}
	return runstate.Verdict{Cause: runstate.CauseLost, Message: "its job ended (" + j.State + ") without a result"}
}

// scriptFailed is all that Slurm knows of it.
const scriptFailed = "the batch script failed"

// settle is what is left to do when the keeper has written its result and the job is gone: Slurm may know better why it ended.
func (c *cluster) settle(ctx context.Context, j Job) error {
	e := c.result.Exit
	switch j.State {
	case StateCancelled, StateTimeout, StatePreempted, StateNodeFail:
		if e != nil && e.Cause == runstate.CauseInterrupted && strings.HasPrefix(e.Message, runstate.Signalled) {
			return c.overrule(ctx, c.fateOf(ctx, j))
		}
	}
	return c.tidy(ctx)
}

// overrule ends a cluster that was between two attempts: the result of the last one gets another cause.
func (c *cluster) overrule(ctx context.Context, v runstate.Verdict) error {
	runstate.Overrule(c.result, v)
	if err := c.l.site.files.writeJSON(ctx, path.Join(c.attemptDir(), keeper.ResultFile), c.result, false); err != nil {
		return c.writeFailed(err)
	}
	return c.tidy(ctx)
}

// conclude ends a cluster whose waiting job was cancelled.
func (c *cluster) conclude(ctx context.Context, v runstate.Verdict) error {
	if c.result != nil {
		return c.overrule(ctx, v)
	}
	return c.bury(ctx, v)
}

// bury writes the result in a dead keeper's place. If the keeper, or another client, was faster, theirs stays.
func (c *cluster) bury(ctx context.Context, v runstate.Verdict) error {
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
func (c *cluster) concluded(v runstate.Verdict) *runstate.State {
	st := c.state
	if st == nil {
		st = firstState(c.record.Spec)
	}
	v.At = c.endedAt()
	return runstate.Conclude(st, v)
}

// endedAt is when a cluster ended whose keeper is dead: when Slurm released its nodes, as far as that is known.
func (c *cluster) endedAt() time.Time {
	at := time.Now().UTC()
	if released := c.released; !released.IsZero() && released.Before(at) {
		at = released
	}
	return at
}

// saved completes the copy of the driver's output by what its node has saved, and says how much there is. Of what was not saved nobody knows the length.
func (c *cluster) saved(ctx context.Context, job *runstate.Job) (*runstate.Log, error) {
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
	if reply.Whole || job == nil || job.State == runstate.JobWaiting || job.Terminal() {
		return &runstate.Log{Bytes: reply.Size}, nil
	}
	return &runstate.Log{Bytes: reply.Size, Missing: [][2]int64{{reply.Size, -1}}}, nil
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
