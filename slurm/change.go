package slurm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

// Accepted is the file in the record.
func (l *Launcher) Accepted(ctx context.Context, id launcher.ID) (*spec.ClusterSpec, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if ended, _, err := c.concludeIfEnded(ctx, time.Second); err != nil {
		return nil, err
	} else if ended {
		return nil, c.refuseKept()
	}
	return c.run.Record.Spec, nil
}

// Accept replaces the file in the record.
func (l *Launcher) Accept(ctx context.Context, id launcher.ID, s *spec.ClusterSpec) error {
	c, err := l.open(ctx, id)
	if err != nil {
		return err
	}
	return c.run.Accept(ctx, s)
}

// Extended moves the time limits of the cluster's jobs if they fall before the keeper's. To raise them most sites leave to administrators (scontrol(1),
// "TimeLimit": "only the Slurm administrator or root can increase").
func (l *Launcher) Extended(ctx context.Context, id launcher.ID, d runstate.Deadlines) error {
	c, err := l.running(ctx, id)
	if err != nil {
		return err
	}
	jobs, err := l.site.Jobs(ctx)
	if err != nil {
		return l.site.Unreachable(err)
	}
	main := slices.IndexFunc(jobs, func(j controller.Job) bool { return j.ID == c.run.Current.Job && !j.Ended() })
	if main < 0 {
		return launcher.NotFound(id)
	}
	if err := c.raise(ctx, jobs[main], d.Max); err != nil {
		return err
	}
	return c.raiseCompanions(ctx, jobs, d.Max)
}

// raiseCompanions lets companion jobs go on, too, as long as their partitions allow. A node of an elastic group for which that is refused is drained before
// its job ends, and replaced; the gang of an early head is not.
func (c *cluster) raiseCompanions(ctx context.Context, jobs []controller.Job, until *time.Time) error {
	if !script.HasCompanions(c.run.Record.Spec) {
		return nil
	}
	partitions, err := c.l.site.Partitions(ctx)
	if err != nil {
		return c.l.site.Unreachable(err)
	}
	jobs = slices.DeleteFunc(slices.Clone(jobs), func(j controller.Job) bool {
		return !c.isCompanion(j) || j.Ended()
	})
	// The elements of a job array that wait, and the one that starts last, have the array's id, which is the lowest. A change by it is one of all elements
	// (measured: 24.11): the others have theirs after it.
	slices.SortFunc(jobs, func(x, y controller.Job) int { return cmp.Compare(x.ID, y.ID) })
	for _, j := range jobs {
		limit, later := companionLimit(j, c.latest(until), partitions)
		if !later {
			continue
		}
		if err := c.l.site.Extend(ctx, j.ID, limit); err != nil && c.run.Record.Spec.Head.Early {
			return launcher.Fail(runstate.CodePermission, err, "ask your site's administrators to raise its limit", "Slurm still ends job %d of %s at %s: %v", j.ID, c.run.Name, launcher.Stamp(j.End), err)
		} else if err != nil {
			c.l.log.Debug("a node's job is not extended", "cluster", c.run.Name, "job", j.ID, "error", err)
		}
	}
	return nil
}

// companionLimit is the time limit with which a companion job, once it runs, lasts until then (nil: for ever), as far as its partitions allow. later: with its
// present limit it ends earlier.
func companionLimit(j controller.Job, until *time.Time, all []script.Partition) (text string, later bool) {
	start, waits := j.Start, j.State == controller.StatePending
	if waits {
		start = time.Now()
	}
	var limit time.Duration // 0: there is none
	if until != nil {
		limit = until.Sub(start)
	}
	for _, p := range script.PartitionsOf(j.Partition, all) {
		if p.Time > 0 && (limit == 0 || p.Time < limit) {
			limit = p.Time
		}
	}
	if limit == 0 {
		return "UNLIMITED", waits || !endless(j)
	}
	return strconv.Itoa(script.Minutes(limit)), waits || !endless(j) && start.Add(limit).After(j.End)
}

// endless reports whether a job has no time limit: Slurm counts on a year (slurm/src/slurmctld/job_mgr.c, 365 days).
func endless(j controller.Job) bool {
	return j.End.IsZero() || j.End.After(time.Now().AddDate(1, 0, 0))
}

// latest is the time until which a job of the cluster must run for this deadline of the keeper.
func (c *cluster) latest(deadline *time.Time) *time.Time {
	if deadline == nil {
		return nil
	}
	end := deadline.Add(script.PlanOf(c.run, 0).AfterMax())
	return &end
}

// raise lets a running job go on until the keeper's deadline and the end it makes then; nil: for ever.
func (c *cluster) raise(ctx context.Context, j controller.Job, until *time.Time) error {
	limit := "UNLIMITED"
	if end := c.latest(until); end != nil {
		if !end.After(j.End) {
			return nil
		}
		limit = strconv.Itoa(script.Minutes(end.Sub(j.Start)))
	}
	if endless(j) {
		return nil
	}
	if c.inside() {
		return launcher.Fail(runstate.CodePermission, nil, fmt.Sprintf("rayctl does not change an allocation that it did not make: `scontrol update JobId=%d TimeLimit=%s`, or ask your site's administrators", j.ID, limit),
			"job %d, in which %s is, ends at %s", j.ID, c.run.Name, launcher.Stamp(j.End))
	}
	err := c.l.site.Extend(ctx, j.ID, limit)
	if err == nil {
		return nil
	}
	return launcher.Fail(runstate.CodePermission, err, fmt.Sprintf("ask your site's administrators for `scontrol update JobId=%d TimeLimit=%s`", j.ID, limit),
		"Slurm still ends %s at %s: %v", c.run.Name, launcher.Stamp(j.End), err)
}
