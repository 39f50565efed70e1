package slurm

import (
	"context"
	"errors"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/orders"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Launch creates the cluster and commits it, see launcher.Launcher. Everything is staged before sbatch, and the commit follows its
// answer: a client that dies before leaves a directory, or a job that starts nothing.
func (l *Launcher) Launch(ctx context.Context, s *spec.ClusterSpec, p launcher.Payload) (launcher.ID, error) {
	s = spec.For(s, slurmspec.Name)
	if err := refuse(s, p); err != nil {
		return "", err
	}
	if open := script.Open(s); open != "" && p.Warn != nil {
		p.Warn(open)
	}
	c, err := l.cluster(ctx, s.Name)
	if err != nil {
		return "", err
	}
	for {
		if slurmspec.InCurrent(s) {
			if c.around, err = l.site.Current(ctx, script.Plan{Spec: s}); err != nil {
				return "", c.interrupted(ctx, err)
			}
		}
		python, err := l.site.Python(ctx, s)
		if err != nil {
			return "", c.interrupted(ctx, err)
		}
		mine, err := c.run.Claim(ctx, s, p, python)
		if err != nil {
			return "", c.interrupted(ctx, err)
		}
		if mine {
			err := c.create(ctx, p)
			if err == nil {
				go launcher.ReconcileBeside(context.WithoutCancel(ctx), l, c.run.ID(), l.log)
			}
			return c.run.ID(), c.interrupted(ctx, err)
		}
		if done, err := c.existing(ctx, s); done || err != nil {
			return c.run.ID(), c.interrupted(ctx, err)
		}
	}
}

// Validate finds what Launch refuses, see launcher.Launcher.
func (l *Launcher) Validate(ctx context.Context, s *spec.ClusterSpec, p launcher.Payload) error {
	s = spec.For(s, slurmspec.Name)
	if err := refuse(s, p); err != nil {
		return err
	}
	if p.DryRun { // a launch finds it when it writes
		if err := l.site.Runs.Room(ctx); err != nil {
			return err
		}
	}
	if _, err := l.site.Python(ctx, s); err != nil {
		return err
	}
	if err := l.site.Apart(ctx, s); err != nil {
		return err
	}
	return l.site.TryRequest(ctx, s)
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
	return script.Plan{Spec: s}.CheckReservation()
}

func (c *cluster) interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return launcher.InterruptedLaunch(c.run.ID(), ctx.Err(), err)
	}
	return err
}

// existing compares the wish with what is there under the name. While somebody else is launching it, it waits. done: it is the same.
func (c *cluster) existing(ctx context.Context, s *spec.ClusterSpec) (done bool, err error) {
	if err := c.run.Read(ctx); err != nil || c.run.Record == nil {
		return false, err
	}
	if !c.run.Committed {
		if c.run.Abandoned() {
			return false, c.abandon(ctx)
		}
		sleep.For(ctx, lookEvery)
		return false, ctx.Err()
	}
	if ended, _, err := c.concludeIfEnded(ctx, time.Second); err != nil {
		return false, err
	} else if ended && c.run.Expired() {
		return false, c.run.Remove(ctx)
	} else if ended {
		return false, c.refuseKept()
	}
	if err := launcher.SameSpec(c.run.ID(), c.run.State, c.run.Record.Spec, s); err != nil {
		return false, err
	}
	return true, nil
}

// refuseKept refuses a name whose record is kept.
func (c *cluster) refuseKept() error {
	return launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "choose another name, or replace it with --recreate",
		"a cluster named %s has ended, and its record is kept until %s", c.run.Name, launcher.Stamp(c.run.KeptUntil()))
}

// lookEvery is how often files are looked at for which nobody else is watching.
const lookEvery = 200 * time.Millisecond

// create stages, submits and commits. Whatever fails, nothing stays.
func (c *cluster) create(ctx context.Context, p launcher.Payload) error {
	stop := c.run.Heartbeat(ctx)
	plan := c.l.site.Fitted(ctx, script.PlanOf(c.run, p.EndOnDisconnect))
	plan.AllocationNodes = c.around.Nodes
	for _, note := range []string{plan.QueueNote(), c.l.site.SharedPartition(ctx, plan.Spec)} {
		if note != "" && p.Warn != nil {
			p.Warn(note)
		}
	}
	err := c.l.site.Apart(ctx, plan.Spec)
	if err == nil {
		err = c.run.Stage(ctx, p, plan)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = c.submit(ctx, plan)
	}
	stop()
	if err != nil {
		return errors.Join(c.run.WriteFailed(err), launcher.Left(c.abandon(context.WithoutCancel(ctx)), "its directory %s and its job", c.run.Dir))
	}
	return nil
}

// submit hands the job to Slurm and commits.
func (c *cluster) submit(ctx context.Context, plan script.Plan) error {
	if c.inside() {
		if err := c.beginInside(ctx, c.around, c.l.keep); err != nil {
			return err
		}
		return c.run.Commit(ctx, c.around.Job)
	}
	if err := c.l.site.TryCompanions(ctx, c.batch(plan)); err != nil {
		return err
	}
	id, err := c.l.site.Submit(ctx, c.batch(plan))
	if err != nil && controller.Away(err) {
		id, err = c.resolve(ctx, err)
	}
	if err != nil {
		return c.l.site.Refused(c.run.Name, err)
	}
	c.run.JobID = id // by which the job is ours from now on
	if err := c.l.site.Stays(plan, id); err != nil {
		return err
	}
	return c.run.Commit(ctx, id)
}

// batch is what is submitted.
func (c *cluster) batch(plan script.Plan) controller.Batch {
	return controller.Batch{Plan: plan, File: c.run.Path(script.File), Environment: c.l.site.Runs.Environment()}
}

// resolve looks for the launch among the jobs: it may be there although sbatch got no answer.
func (c *cluster) resolve(ctx context.Context, cause error) (int, error) {
	jobs, err := c.l.site.Queue.Ask(ctx, controller.Fresh)
	if err != nil {
		return 0, c.l.site.Unreachable(cause)
	}
	if j, ok := c.findJob(jobs); ok {
		return j.Leader(), nil
	}
	return 0, c.l.site.Unreachable(cause)
}

// abandon removes a launch that was never committed, as if it had never been.
func (c *cluster) abandon(ctx context.Context) error {
	if c.inside() {
		if err := c.cancel(ctx, 0, false); err != nil && !errors.Is(err, controller.ErrNoSteps) {
			return err
		}
	} else if c.run.Record != nil {
		if jobs, err := c.l.site.Queue.Ask(ctx, controller.Fresh); err == nil {
			if j, ok := c.findJob(jobs); ok && !j.Ended() {
				if err := c.cancel(ctx, j.Leader(), false); err != nil {
					return err
				}
			}
		} // else: it starts nothing without a commit
	}
	return c.run.Remove(ctx)
}
