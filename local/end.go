package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
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
	return c.remove()
}

// writeResult takes down what a dead keeper left, and writes the result in its place. The caller holds its lock.
func (c *cluster) writeResult(ctx context.Context, v runstate.Verdict) error {
	if err := c.sweep(ctx); err != nil {
		return err
	}
	how, st, err := c.look()
	if err != nil || how == ended {
		return err
	}
	st = c.concluded(st, v)
	if st.Log, err = c.salvage(st.Job); err != nil {
		return writeFailed(c.dir, err)
	}
	if err := writeJSON(c.path(keeper.ResultFile), st); err != nil {
		return writeFailed(c.dir, err)
	}
	return c.removeSecrets()
}

// concluded is the last state of a cluster whose keeper is dead. st is the last that it wrote, nil if it never did.
func (c *cluster) concluded(st *runstate.State, v runstate.Verdict) *runstate.State {
	if st == nil {
		st = &runstate.State{Name: c.name, Launcher: c.l.Name(), Attempt: 1}
	}
	v.At, v.By = time.Now().UTC(), c.l.owner
	return runstate.Conclude(st, v)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// sweep returns when no process and no temporary directory of the cluster is left. Supervisors notice the end of their keeper, and
// the keeper that of its client, by themselves; what has not ended after a while is killed.
func (c *cluster) sweep(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathLimit)
	defer cancel()
	soon, cancelSoon := context.WithTimeout(ctx, patience)
	defer cancelSoon()
	dirs := c.nodeDirs()
	left, err := proc.Wait(soon, c.markers())
	if len(left) > 0 {
		left, err = proc.Kill(ctx, c.markers())
	}
	if err != nil {
		return launcher.Fail(runstate.CodeInternal, err, "", "the process table cannot be read: %v", err)
	}
	if len(left) > 0 {
		return launcher.Fail(runstate.CodeInternal, nil, "they may hang in a device or a file system; look at them with ps",
			"processes of %s do not die: %s", c.name, pids(left))
	}
	for _, dir := range append(dirs, c.nodeDirs()...) {
		if err := os.RemoveAll(dir); err != nil {
			return launcher.Fail(runstate.CodeInternal, err, "remove it yourself", "the temporary directory %s of %s cannot be removed: %v", dir, c.name, err)
		}
	}
	return nil
}

// kill ends the keeper and all it started at once, without asking.
func (c *cluster) kill(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deathLimit)
	defer cancel()
	_, err := proc.Kill(ctx, c.markers())
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
	lock, err := c.l.lock(ctx, c.name)
	if err != nil {
		return err
	}
	defer lock.Release()
	return c.concludeLocked(ctx, v)
}

func (c *cluster) concludeLocked(ctx context.Context, v runstate.Verdict) error {
	how, _, err := c.look()
	switch {
	case err != nil:
		return err
	case how == missing || how == elsewhere || how == living:
		return nil
	case !c.Committed():
		return c.abandon(ctx)
	case how == ended:
		return nil
	default:
		return c.writeResult(ctx, v)
	}
}

// remove deletes the run directory. Output of drivers that is in it stays: rayctl deletes no results of others.
func (c *cluster) remove() error {
	entries, err := os.ReadDir(c.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	// The record goes first: without it the rest is nobody's cluster, should we die here.
	for _, name := range append([]string{recordFile}, names(entries)...) {
		if name == outputName {
			os.Remove(c.path(name)) // only if it is empty
			continue
		}
		if err := os.RemoveAll(c.path(name)); err != nil {
			return launcher.Fail(runstate.CodeInternal, err, "remove it yourself", "the record of %s cannot be removed: %v", c.name, err)
		}
	}
	if err != nil {
		return writeFailed(c.dir, err)
	}
	os.Remove(c.dir) // only if no output is left in it
	return nil
}

func names(entries []os.DirEntry) (out []string) {
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// removeSecrets removes what must not outlive the cluster.
func (c *cluster) removeSecrets() error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return writeFailed(c.dir, err)
	}
	for _, name := range names(entries) {
		if name != keeper.TokenFile && name != keeper.SecretsFile && !strings.HasPrefix(name, orders.PackagePrefix) {
			continue
		}
		if err := os.Remove(c.path(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return writeFailed(c.dir, err)
		}
	}
	return nil
}
