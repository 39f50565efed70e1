package onemachine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/local/proc"
)

const (
	// patience is given to supervisors and keepers that end by themselves, before they are killed.
	patience = 8 * time.Second
	// deathLimit bounds the wait for killed processes: the kernel may be stuck in a device.
	deathLimit = 20 * time.Second
)

func lost() runstate.Verdict {
	return runstate.Verdict{Cause: runstate.CauseLost, Message: "the keeper was killed"}
}

// abandon takes down and removes a cluster that was never committed: as if it had never been. The caller holds its lock.
func (c *cluster) abandon(ctx context.Context) error {
	if err := c.sweep(ctx); err != nil {
		return err
	}
	return c.run.Remove()
}

// writeResult takes down what a dead keeper left, and writes the result in its place. The caller holds its lock.
func (c *cluster) writeResult(ctx context.Context, v runstate.Verdict) error {
	if err := c.sweep(ctx); err != nil {
		return err
	}
	how, st, err := c.run.Life()
	if err != nil || how == ended {
		return err
	}
	if err := c.run.WriteResult(c.concluded(st, v)); err != nil {
		return err
	}
	c.share(ctx)
	return nil
}

// share copies what job.shareDir gets, in a dead keeper's place. The run has its result whether this succeeds or not.
func (c *cluster) share(ctx context.Context) {
	if c.run.Record.Spec.Job.ShareDir == "" {
		return
	}
	program, err := keeperzip.Write(c.l.scripts)
	if err == nil {
		var out []byte
		if out, err = exec.CommandContext(ctx, c.run.Record.Python, "-E", "-s", program, keeperzip.Share, c.run.Dir).CombinedOutput(); err != nil {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(out)))
		}
	}
	if err != nil {
		c.l.log.Warn("the end of the run was not copied to job.shareDir", "cluster", c.run.Name, "error", err)
	}
}

// concluded is the last state of a cluster whose keeper is dead. st is the last that it wrote, nil if it never did.
func (c *cluster) concluded(st *runstate.State, v runstate.Verdict) *runstate.State {
	if st == nil {
		st = &runstate.State{Name: c.run.Name, Launcher: c.l.Name(), Attempt: 1}
	}
	v.At, v.By = time.Now().UTC(), c.l.owner
	return runstate.Conclude(st, v)
}

// sweep returns when no process and no temporary directory of the cluster is left. Supervisors notice the end of their keeper, and
// the keeper that of its client, by themselves; what has not ended after a while is killed.
func (c *cluster) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathLimit)
	defer cancel()
	soon, cancelSoon := context.WithTimeout(ctx, patience)
	defer cancelSoon()
	dirs := c.run.NodeDirs()
	left, err := proc.Wait(soon, c.run.Markers())
	if len(left) > 0 {
		left, err = proc.Kill(ctx, c.run.Markers())
	}
	if err != nil {
		return noProcessTable(err)
	}
	if len(left) > 0 {
		return launcher.Fail(runstate.CodeInternal, nil, "they may be blocked in a device or a file system; look at them with ps",
			"processes of %s cannot be killed: %s", c.run.Name, pids(left))
	}
	for _, dir := range append(dirs, c.run.NodeDirs()...) {
		if err := errors.Join(os.RemoveAll(spilled(dir)), os.RemoveAll(dir)); err != nil {
			return launcher.Fail(runstate.CodeInternal, err, "remove it yourself", "the temporary directory %s of %s cannot be removed: %v", dir, c.run.Name, err)
		}
	}
	return nil
}

// killKeeper ends the keeper alone, without asking. If the kernel does not end it, all that it started is killed with it.
func (c *cluster) killKeeper(ctx context.Context, st *runstate.State) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathLimit)
	defer cancel()
	soon, cancelSoon := context.WithTimeout(ctx, patience)
	defer cancelSoon()
	if st.Keeper.PID > 0 && proc.Alive(st.Keeper.PID, st.Keeper.StartTime) {
		_ = syscall.Kill(st.Keeper.PID, syscall.SIGKILL) // an error is ignored: the next look shows whether it is gone
	}
	for soon.Err() == nil {
		if !proc.Alive(st.Keeper.PID, st.Keeper.StartTime) {
			return nil
		}
		sleep.For(soon, lookEvery)
	}
	_, err := proc.Kill(ctx, c.run.Markers())
	return err
}

func pids(ps []proc.Process) string {
	var out []string
	for _, p := range ps {
		out = append(out, fmt.Sprint(p.PID))
	}
	return strings.Join(out, ", ")
}

// conclude gives an orphaned cluster its result; one that was never committed vanishes.
func (c *cluster) conclude(ctx context.Context, v runstate.Verdict) error {
	lock, err := c.l.lock(ctx, c.run.Name)
	if err != nil {
		return err
	}
	defer lock.Release()
	return c.concludeLocked(ctx, v)
}

func (c *cluster) concludeLocked(ctx context.Context, v runstate.Verdict) error {
	how, _, err := c.run.Life()
	switch {
	case err != nil:
		return err
	case how == missing || how == elsewhere || how == living:
		return nil
	case !c.run.Files.Committed():
		return c.abandon(ctx)
	case how == ended:
		return nil
	default:
		return c.writeResult(ctx, v)
	}
}
