package slurm

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
)

// Launch creates the cluster and commits it, see launcher.Launcher. Everything is staged before sbatch, and the commit follows its
// answer: a client that dies before leaves a directory, or a job that starts nothing.
func (l *Launcher) Launch(ctx context.Context, s *spec.ClusterSpec, p launcher.Payload) (launcher.ID, error) {
	s = spec.For(s, spec.LauncherSlurm)
	if err := refuse(s, p); err != nil {
		return "", err
	}
	c, err := l.cluster(ctx, s.Name)
	if err != nil {
		return "", err
	}
	for {
		mine, err := c.claim(ctx, s, p)
		if err != nil {
			return "", c.interrupted(ctx, err)
		}
		if mine {
			err := c.create(ctx, p)
			if err == nil {
				go l.reconcile(context.WithoutCancel(ctx), c.name)
			}
			return c.id(), c.interrupted(ctx, err)
		}
		if done, err := c.existing(ctx, s); done || err != nil {
			return c.id(), c.interrupted(ctx, err)
		}
	}
}

// Validate finds what Launch refuses, see launcher.Validator.
func (l *Launcher) Validate(ctx context.Context, s *spec.ClusterSpec, p launcher.Payload) error {
	s = spec.For(s, spec.LauncherSlurm)
	if err := refuse(s, p); err != nil {
		return err
	}
	if _, err := l.python(ctx, s); err != nil {
		return err
	}
	return l.tryRequest(ctx, s)
}

// refuse finds what Slurm's launcher cannot do.
func refuse(s *spec.ClusterSpec, p launcher.Payload) error {
	if err := orders.Refuse(s, p); err != nil {
		return err
	}
	if s.TotalNodes() == 0 {
		return launcher.Fail(runstate.CodeSpec, nil, "give a group replicas", "%s has no node", s.Name)
	}
	if err := refuseExposed(s); err != nil {
		return err
	}
	if s.IsGang() && s.GangNodes() != s.TotalNodes() {
		return launcher.Fail(runstate.CodeSpec, nil, "make minReplicas equal to replicas", "Slurm starts all workers of %s together: groups cannot be elastic", s.Name)
	}
	return nil
}

func (c *cluster) interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return launcher.Fail(runstate.CodeInterrupted, ctx.Err(), "", "the launch of %s was interrupted; nothing was left behind", c.name)
	}
	return err
}

// claim takes the name, if nobody has it.
func (c *cluster) claim(ctx context.Context, s *spec.ClusterSpec, p launcher.Payload) (bool, error) {
	dir, owner, err := c.l.arrive(ctx)
	if err != nil {
		return false, err
	}
	python, err := c.l.python(ctx, s)
	if err != nil {
		return false, err
	}
	r := &record{
		Name: s.Name, Owner: owner, Nonce: rand.Text(), Created: time.Now().UTC(), Labels: s.Labels, Command: p.Command,
		Python: python, Programs: programsIn(dir), Spec: s,
	}
	err = c.l.site.files.WriteJSON(ctx, c.path(recordFile), r, true)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, remote.ErrCut) { // cut: it may be there, and ours
		if err := c.look(ctx); err != nil {
			return false, err
		}
		return c.record != nil && c.record.Nonce == r.Nonce, nil
	}
	if err != nil {
		_ = c.l.site.files.RemoveEmpty(context.WithoutCancel(ctx), c.dir) // the way to a file that could not be written
		return false, c.writeFailed(err)
	}
	c.record = r
	return true, nil
}

// python is the interpreter on the nodes: ray.python, which may be a virtual environment.
func (l *Launcher) python(ctx context.Context, s *spec.ClusterSpec) (string, error) {
	python := s.Ray.Python
	if python == "" {
		return "python3", nil
	}
	if s.Slurm.ContainerRuntime != "none" {
		return python, nil // a path in the container
	}
	kind, err := l.site.files.Kind(ctx, python)
	if err != nil {
		return "", l.cut(err)
	}
	if kind == "directory" {
		return path.Join(python, "bin", "python"), nil
	}
	return python, nil
}

// existing compares the wish with what is there under the name. While somebody else is launching it, it waits. done: it is the same.
func (c *cluster) existing(ctx context.Context, s *spec.ClusterSpec) (done bool, err error) {
	if err := c.look(ctx); err != nil || c.record == nil {
		return false, err
	}
	if !c.committed {
		if c.abandoned() {
			return false, c.abandon(ctx)
		}
		sleep.For(ctx, lookEvery)
		return false, ctx.Err()
	}
	if over, err := c.over(ctx); err != nil {
		return false, err
	} else if over && c.expired() {
		return false, c.remove(ctx)
	} else if over {
		return false, launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "choose another name, or replace it with --recreate",
			"a cluster named %s has ended, and its record is kept until %s", c.name, c.keptUntil().Local().Format(time.DateTime))
	}
	if diff := spec.Diff(c.record.Spec, s); len(diff) > 0 {
		return false, launcher.Fail(runstate.CodeSpec, launcher.ErrConflict, "choose another name, or replace it with --recreate",
			"a cluster named %s exists with another spec (%s)", c.name, strings.Join(diff, "; "))
	}
	return true, nil
}

// lookEvery is how often files are looked at for which nobody else is watching.
const lookEvery = 200 * time.Millisecond

// keptUntil is when the record may go.
func (c *cluster) keptUntil() time.Time {
	return time.Now().Add(-c.resultAge).Add(max(c.record.keep(), leastKeep))
}

// expired says whether lifetime.keep has passed since the end.
func (c *cluster) expired() bool { return c.result != nil && time.Now().After(c.keptUntil()) }

// leastKeep lets whoever watched a cluster with `keep: 0` read its result.
const leastKeep = time.Minute

// create stages, submits and commits. Whatever fails, nothing stays.
func (c *cluster) create(ctx context.Context, p launcher.Payload) error {
	stop := c.heartbeat(ctx)
	err := c.stage(ctx, p)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = c.submit(ctx)
	}
	stop()
	if err != nil {
		return errors.Join(c.writeFailed(err), c.abandon(context.WithoutCancel(ctx)))
	}
	return nil
}

// heartbeat keeps others from taking a long launch for a dead one.
func (c *cluster) heartbeat(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		for sleep.For(ctx, orders.Lease/4); ctx.Err() == nil; sleep.For(ctx, orders.Lease/4) {
			if err := c.l.site.files.Call(ctx, "touch", map[string]any{"path": c.path(recordFile)}, nil); err != nil {
				c.l.log.Debug("the claim cannot be renewed", "cluster", c.name, "error", err)
			}
		}
	}()
	return cancel
}

// submit hands the job to Slurm and commits.
func (c *cluster) submit(ctx context.Context) error {
	id, err := c.l.site.Submit(ctx, c.batch())
	if err != nil && controller.Away(err) {
		id, err = c.resolve(ctx, err)
	}
	if err != nil {
		return c.refused(err)
	}
	c.job = id // by which the job is ours from now on
	f := c.l.site.files
	if err := f.WriteBytes(ctx, c.path(jobFile), []byte(strconv.Itoa(id))); err != nil {
		return err
	}
	err = f.Call(ctx, "rename", map[string]any{"path": c.path(commitName + ".staged"), "to": c.path(commitName)}, nil)
	if errors.Is(err, fs.ErrNotExist) { // asked twice
		if err := c.look(ctx); err == nil && c.committed {
			return nil
		}
	}
	return err
}

// batch is what is submitted.
func (c *cluster) batch() controller.Batch {
	return controller.Batch{Plan: c.plan(0), File: c.path(scriptFile), Environment: c.l.environment()}
}

// resolve looks for the launch among the jobs: it may be there although sbatch got no answer.
func (c *cluster) resolve(ctx context.Context, cause error) (int, error) {
	jobs, err := c.l.queue.Ask(ctx, controller.Now)
	if err != nil {
		return 0, c.l.site.unreachable(cause)
	}
	if j, ok := c.find(jobs); ok {
		return j.Leader(), nil
	}
	return 0, c.l.site.unreachable(cause)
}

// abandon removes a launch that was never committed, as if it had never been.
func (c *cluster) abandon(ctx context.Context) error {
	if c.record != nil {
		if jobs, err := c.l.queue.Ask(ctx, controller.Now); err == nil {
			if j, ok := c.find(jobs); ok && !j.Ended() {
				if err := c.l.site.Cancel(ctx, j.Leader(), false); err != nil {
					return err
				}
			}
		} // else: it starts nothing without a commit
	}
	return c.remove(ctx)
}

// remove deletes the run's directory. Output of drivers that is in it stays.
func (c *cluster) remove(ctx context.Context) error {
	f := c.l.site.files
	names, err := f.Names(ctx, c.dir)
	if err != nil || len(names) == 0 {
		return c.l.cut(err)
	}
	paths := []string{c.path(recordFile)} // first: without it the rest is nobody's cluster
	for _, name := range names {
		if name != script.OutputName && name != recordFile {
			paths = append(paths, c.path(name))
		}
	}
	if err := f.Remove(ctx, paths...); err != nil {
		return launcher.Fail(runstate.CodeInternal, err, "remove it yourself", "the record of %s cannot be removed: %v", c.name, err)
	}
	for _, dir := range []string{c.path(script.OutputName), c.dir} {
		if err := f.RemoveEmpty(ctx, dir); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return nil
}
