package slurm

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"time"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
)

// another is what the files say of a job that waits again after an attempt: Slurm itself does not tell why.
type another struct {
	Cause   string `json:"cause"`
	Message string `json:"message"`
	Told    bool   `json:"told"`    // somebody said so; else it is what is left when nobody did
	Allowed bool   `json:"allowed"` // job.restarts has an attempt left for this cause
}

func (c *cluster) another(ctx context.Context) (a another, err error) {
	return a, c.l.site.files.Call(ctx, "again", map[string]any{"run": c.dir}, &a)
}

// presumeAfter is for how long a shared file system may keep from us what the nodes have written: attributes are cached for up to a minute (nfs(5), acdirmax).
const presumeAfter = time.Minute

// lastAttempt says why a waiting job is to be given up after an attempt: Slurm queues it again although job.restarts has none left. nil: it is not, or not
// yet known. The job itself would find out when it starts, which may take days.
func (c *cluster) lastAttempt(ctx context.Context, j controller.Job) (*runstate.Verdict, error) {
	if c.lastWord() == nil || j.State != controller.StatePending {
		return nil, nil
	}
	a, err := c.another(ctx)
	if err != nil || a.Allowed || !a.Told && time.Since(j.Submit) < presumeAfter {
		return nil, err
	}
	return &runstate.Verdict{Cause: a.Cause, Message: a.Message}, nil
}

// withdrawn is why rayctl cancelled a job that waited. It is written before Slurm is asked: whoever sees the cancelled job first knows that it was rayctl.
type withdrawn struct {
	Cause    string `json:"cause"`
	Message  string `json:"message"`
	Final    bool   `json:"final,omitempty"`
	Revision int64  `json:"revision"` // of the keeper's last word, 0 without one: a job that began after all and ended later was not withdrawn
}

// withdrawnFile stands in the directory of the attempt after which the job waited.
const withdrawnFile = "withdrawn"

// withdraw cancels a waiting job and concludes its cluster, unless it has begun after all: then its keeper tells how it ends.
func (c *cluster) withdraw(ctx context.Context, v runstate.Verdict) error {
	note := withdrawn{Cause: v.Cause, Message: v.Message, Final: v.Final, Revision: c.revision()}
	if err := c.l.site.files.WriteJSON(ctx, path.Join(c.attemptDir(), withdrawnFile), note, true); err != nil && !errors.Is(err, fs.ErrExist) {
		c.l.log.Debug("it could not be noted why the job is cancelled", "cluster", c.name, "error", err) // to end it does not need the disk
	}
	if err := c.l.site.Cancel(ctx, c.job, true); err != nil {
		return c.l.site.unreachable(err)
	}
	f, j, err := c.ask(ctx, controller.Now)
	if err != nil || f != gone || j.State != controller.StateCancelled {
		return nil //nolint:nilerr // the next look tells
	}
	return c.conclude(ctx, v)
}

func (c *cluster) revision() int64 {
	if last := c.lastWord(); last != nil {
		return last.Revision
	}
	return 0
}

// fateOf is how a cluster ended, by Slurm's word and by the files': a job that waited and was cancelled was so for the reason that is noted, or because
// no other attempt might follow.
func (c *cluster) fateOf(ctx context.Context, j controller.Job) runstate.Verdict {
	v := verdictOf(j)
	if j.State != controller.StateCancelled {
		return v
	}
	var note withdrawn
	file := path.Join(c.attemptDir(), withdrawnFile)
	if files, err := c.l.site.files.Read(ctx, file); err == nil {
		if there, err := decode(files, file, &note); there && err == nil && note.Revision == c.revision() {
			return runstate.Verdict{Cause: note.Cause, Message: note.Message, Final: note.Final}
		}
	}
	if c.lastWord() == nil {
		return v
	}
	if a, err := c.another(ctx); err == nil && a.Cause == runstate.CauseLost && a.Told && !a.Allowed {
		return runstate.Verdict{Cause: a.Cause, Message: a.Message}
	}
	return v
}
