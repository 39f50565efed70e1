package slurm

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// another is what the files say of a job that waits again after an attempt: Slurm itself does not tell why.
type another struct {
	Cause   string `json:"cause"`
	Message string `json:"message"`
	Told    bool   `json:"told"`    // somebody said so; else it is what is left when nobody did
	Allowed bool   `json:"allowed"` // job.restarts has an attempt left for this cause
}

func (c *cluster) another(ctx context.Context) (a another, err error) {
	return a, c.l.site.files.call(ctx, "again", map[string]any{"run": c.dir}, &a)
}

// presumeAfter is for how long a shared file system may keep from us what the nodes have written: attributes are cached for up to a minute (nfs(5), acdirmax).
const presumeAfter = time.Minute

// lastAttempt says why a waiting job is to be given up after an attempt: Slurm queues it again although job.restarts has none left. nil: it is not, or not
// yet known. The job itself would find out when it starts, which may take days.
func (c *cluster) lastAttempt(ctx context.Context, j Job) (*verdict, error) {
	if c.lastWord() == nil || j.State != StatePending {
		return nil, nil
	}
	a, err := c.another(ctx)
	if err != nil || a.Allowed || !a.Told && time.Since(j.Submit) < presumeAfter {
		return nil, err
	}
	return &verdict{cause: a.Cause, message: a.Message}, nil
}

// withdraw cancels a waiting job and concludes its cluster. done is false if it has begun after all: then its keeper tells how it ends.
func (c *cluster) withdraw(ctx context.Context, v verdict) (done bool, err error) {
	if err := c.l.site.cancel(ctx, c.job, true); err != nil {
		return false, c.l.site.unreachable(err)
	}
	f, j, err := c.ask(ctx, now)
	if err != nil || f != gone || j.State != StateCancelled {
		return false, nil // the next look tells
	}
	return true, c.conclude(ctx, v)
}

// fateOf is how a cluster ended, by Slurm's word and by the files': a job that was cancelled after its last attempt was so because no other might follow.
func (c *cluster) fateOf(ctx context.Context, j Job) verdict {
	v := verdictOf(j)
	if j.State != StateCancelled || c.lastWord() == nil {
		return v
	}
	if a, err := c.another(ctx); err == nil && a.Cause == keeper.CauseLost && a.Told && !a.Allowed {
		return verdict{cause: a.Cause, message: a.Message}
	}
	return v
}

// takeLast ends a listed cluster whose job waits though no attempt may follow.
func (c *cluster) takeLast(ctx context.Context, j Job) (done bool, err error) {
	v, err := c.lastAttempt(ctx, j)
	if err != nil || v == nil {
		return false, err
	}
	return c.withdraw(ctx, *v)
}
