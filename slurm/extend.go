package slurm

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/script"
)

var _ launcher.Extender = (*Launcher)(nil)

// Extended moves the job's own time limit if it falls before the keeper's. To raise it most sites leave to administrators (scontrol(1), "TimeLimit":
// "only the Slurm administrator or root can increase").
func (l *Launcher) Extended(ctx context.Context, id launcher.ID, d runstate.Deadlines) error {
	c, err := l.running(ctx, id)
	if err != nil {
		return err
	}
	jobs, err := l.site.Jobs(ctx)
	if err != nil {
		return l.site.Unreachable(err)
	}
	for _, j := range jobs {
		if j.ID == c.Current.Job && !j.Ended() {
			return c.raise(ctx, j, d.Max)
		}
	}
	return launcher.NotFound(id)
}

// raise lets a running job go on until the keeper's deadline and the end it makes then; nil: for ever.
func (c *cluster) raise(ctx context.Context, j controller.Job, until *time.Time) error {
	limit := "UNLIMITED"
	if until != nil {
		end := until.Add(script.PlanOf(c.Run, 0).AfterMax())
		if !end.After(j.End) {
			return nil
		}
		limit = strconv.Itoa(script.Minutes(end.Sub(j.Start)))
	}
	if j.End.IsZero() || j.End.After(time.Now().AddDate(1, 0, 0)) { // no limit: Slurm counts on a year (slurm/src/slurmctld/job_mgr.c, 365 days)
		return nil
	}
	if c.Inside() {
		return launcher.Fail(runstate.CodePermission, nil, fmt.Sprintf("the allocation is its owner's: `scontrol update JobId=%d TimeLimit=%s`, or ask your site's administrators", j.ID, limit),
			"job %d, in which %s is, ends at %s", j.ID, c.Name, launcher.Stamp(j.End))
	}
	err := c.l.site.Extend(ctx, j.ID, limit)
	if err == nil {
		return nil
	}
	return launcher.Fail(runstate.CodePermission, err, fmt.Sprintf("ask your site's administrators for `scontrol update JobId=%d TimeLimit=%s`", j.ID, limit),
		"Slurm still ends %s at %s: %v", c.Name, launcher.Stamp(j.End), err)
}
