package slurm

import (
	"context"
	"slices"
	"time"

	"github.com/rayctl/rayctl/slurm/controller"
)

// fate is the state of a cluster's job as the controller reports it.
type fate int

// Fates of a job.
const (
	fateUnknown fate = iota // Slurm has no such job, or has it no longer
	fateAlive               // it waits, runs, or still holds nodes, or a companion job does
	fateGone                // it ended and holds nothing
)

// askController returns the job's fate from an answer at most age old. A PENDING job whose keeper has already written files was requeued, if the answer is newer than those
// files; else the controller is queried again.
func (c *cluster) askController(ctx context.Context, age time.Duration) (fate, controller.Job, error) {
	if c.inside() {
		return c.askInside(ctx, age)
	}
	// An answer from before the launch cannot have its job.
	jobs, at, err := c.l.site.Queue.AskWhen(ctx, min(age, max(0, time.Since(c.run.Record.Created))))
	if err != nil {
		return fateUnknown, controller.Job{}, err
	}
	c.answered = at
	j, found := c.findJob(jobs)
	if found {
		c.run.JobID, c.released = j.Leader(), j.Released()
	}
	switch {
	case !found:
		return fateUnknown, j, nil
	case j.Ended() && c.companionReleases(jobs):
		return fateAlive, j, nil
	case j.Ended():
		return fateGone, j, nil
	case j.State == controller.StatePending && age > 0 && c.spokeAfter(at):
		return c.askController(ctx, controller.Fresh)
	default:
		return fateAlive, j, nil
	}
}

// companionReleases reports whether a companion job has ended and still holds its nodes: Slurm waits for its processes, up to KillWait (slurm.conf(5)).
func (c *cluster) companionReleases(jobs []controller.Job) bool {
	return slices.ContainsFunc(jobs, func(j controller.Job) bool { return c.isCompanion(j) && j.Has("COMPLETING") })
}

// spokeAfter reports whether the keeper's files were written after that moment.
func (c *cluster) spokeAfter(at time.Time) bool {
	ago := time.Since(at)
	return c.run.Result != nil && c.run.ResultAge < ago || c.run.Result == nil && c.run.State != nil && c.run.StateAge < ago
}

// A controller that was restarted has lost up to 5 seconds of its state and recovers jobs from the nodes: a job that it does not list
// is queried again before it is taken to have ended.
const (
	believeAfter = 12 * time.Second
	askAgain     = 4 * time.Second
)
