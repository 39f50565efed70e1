package slurm

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/slurm/controller"
)

// over says whether the cluster has ended and holds nothing. One that ended without a result gets one: it is for calls that may change something.
func (c *cluster) over(ctx context.Context) (bool, error) {
	over, _, err := c.overOr(ctx, time.Second)
	return over, err
}

// overOr also returns the job of a cluster that has not ended, by an answer at most age old.
func (c *cluster) overOr(ctx context.Context, age time.Duration) (bool, controller.Job, error) {
	e, err := c.outcome(ctx, age)
	switch {
	case err != nil || !e.over || c.record == nil:
		return e.over, e.job, err
	case c.result == nil:
		return true, e.job, c.writeResult(ctx, *e.verdict)
	case e.verdict != nil:
		return true, e.job, c.overrule(ctx, *e.verdict)
	default:
		return true, e.job, c.cleanUp(ctx)
	}
}

// outcome is whether and how a cluster has ended.
type outcome struct {
	over bool           // it holds nothing; its record may be gone, too
	job  controller.Job // of one that has not ended
	// verdict is on a cluster that has ended without a result, or that is to overrule its result. nil: the result is as the keeper wrote it.
	verdict *runstate.Verdict
}

// outcome changes nothing. Where the controller does not know the job, it is asked again for a while.
func (c *cluster) outcome(ctx context.Context, age time.Duration) (e outcome, err error) {
	began := time.Now()
	for {
		var f fate
		f, e.job, err = c.ask(ctx, age)
		switch {
		case err != nil && c.result != nil && c.resultAge > time.Hour:
			e.over = true
			return e, nil // whatever the controller knows of it
		case err != nil:
			return e, c.l.site.unreachable(err)
		case f == alive:
			return e, nil
		case c.result != nil:
			e.over, e.verdict = true, c.overruling(ctx, e.job)
			return e, nil
		case f == gone || time.Since(began) > believeAfter:
			e.over, e.verdict = true, ptr.To(c.verdictOn(ctx, f, e.job))
			return e, nil
		}
		sleep.For(ctx, askAgain)
		if err := ctx.Err(); err != nil {
			return e, err
		}
		if err := c.look(ctx); err != nil {
			return e, err
		}
		if c.record == nil {
			e.over = true
			return e, nil
		}
	}
}

// verdictOn a cluster without a result, whose job has ended or is not known any more.
func (c *cluster) verdictOn(ctx context.Context, f fate, j controller.Job) runstate.Verdict {
	if f == gone {
		return c.verdict(ctx, j)
	}
	return runstate.Verdict{Cause: runstate.CauseLost, Message: "Slurm does not know its job any more"}
}

// overruling is the verdict on a cluster whose keeper has written its result, and whose job is gone, where Slurm knows better why it ended. nil: the
// keeper's word stands.
func (c *cluster) overruling(ctx context.Context, j controller.Job) *runstate.Verdict {
	e := c.result.Exit
	switch j.State {
	case controller.StateCancelled, controller.StateTimeout, controller.StatePreempted, controller.StateNodeFail:
		if e != nil && e.Cause == runstate.CauseInterrupted && strings.HasPrefix(e.Message, runstate.Signalled) {
			return ptr.To(c.fateOf(ctx, j))
		}
	}
	return nil
}

// final is the last state of a cluster that has ended, as it will stand in its record.
func (c *cluster) final(v *runstate.Verdict) *runstate.State {
	switch {
	case c.result == nil:
		return c.concluded(*v)
	case v != nil:
		runstate.Overrule(c.result, *v)
	}
	return c.result
}

// overrule ends a cluster that was between two attempts: the result of the last one gets another cause.
func (c *cluster) overrule(ctx context.Context, v runstate.Verdict) error {
	runstate.Overrule(c.result, v)
	if err := c.l.site.files.WriteJSON(ctx, path.Join(c.attemptDir(), keeper.ResultFile), c.result, false); err != nil {
		return c.writeFailed(err)
	}
	return c.cleanUp(ctx)
}

// conclude ends a cluster whose waiting job was cancelled.
func (c *cluster) conclude(ctx context.Context, v runstate.Verdict) error {
	if c.result != nil {
		return c.overrule(ctx, v)
	}
	return c.writeResult(ctx, v)
}

// writeResult writes the result in a dead keeper's place. If the keeper, or another client, was faster, theirs stays.
func (c *cluster) writeResult(ctx context.Context, v runstate.Verdict) error {
	st := c.concluded(v)
	output, err := c.saved(ctx, st.Job, true)
	if err != nil {
		return err
	}
	st.Log = output.log(st.Job)
	err = c.l.site.files.WriteJSON(ctx, path.Join(c.attemptDir(), keeper.ResultFile), st, true)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return c.writeFailed(err)
	}
	if err := c.look(ctx); err != nil {
		return err
	}
	return c.cleanUp(ctx)
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

// savedOutput is what there is of the driver's output. Of what was not saved nobody knows the length.
type savedOutput struct {
	Parts []outputPart `json:"parts"`
	Whole bool         `json:"whole"`
}

// log describes it.
func (o *savedOutput) log(job *runstate.Job) *runstate.Log {
	size := int64(0)
	for _, p := range o.Parts {
		size += p.size
	}
	if o.Whole || job == nil || job.State == runstate.JobWaiting || job.Terminal() {
		return &runstate.Log{Bytes: size}
	}
	return &runstate.Log{Bytes: size, Missing: [][2]int64{{size, -1}}}
}

// saved finds the output of a cluster whose keeper is dead: the keeper's copy, and what the node has saved beyond it. complete also makes one file of it.
func (c *cluster) saved(ctx context.Context, job *runstate.Job, complete bool) (*savedOutput, error) {
	op, name := "saved", ""
	if complete {
		op = "salvage"
	}
	if job != nil {
		name = job.LogFile
	}
	var o savedOutput
	if err := c.l.site.files.Call(ctx, op, map[string]any{"attempt": c.attemptDir(), "log": name}, &o); err != nil {
		if complete {
			return nil, c.writeFailed(err)
		}
		return nil, c.l.cut(err)
	}
	return &o, nil
}

// reserveFile is the room that a keeper holds for its result.
const reserveFile = ".reserve"

// leftSecrets says whether something is there that must not outlive the cluster: the keeper removes it, unless its job was cancelled between two attempts.
func (c *cluster) leftSecrets(ctx context.Context) (bool, error) {
	kind, err := c.l.site.files.Kind(ctx, c.path(seedDir))
	return c.token != "" || kind != "", err
}

// cleanUp removes what must not outlive the cluster, where its keeper could not.
func (c *cluster) cleanUp(ctx context.Context) error {
	dir := c.attemptDir()
	paths := []string{c.path(seedDir), path.Join(dir, keeper.TokenFile), path.Join(dir, keeper.SecretsFile)}
	names, err := c.l.site.files.Names(ctx, dir)
	if err != nil {
		return c.l.cut(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, orders.PackagePrefix) || name == reserveFile || strings.HasSuffix(name, ".tmp") {
			paths = append(paths, path.Join(dir, name))
		}
	}
	if err := c.l.site.files.Remove(ctx, paths...); err != nil {
		return c.writeFailed(err)
	}
	c.l.tunnels.drop(c.name)
	return nil
}
