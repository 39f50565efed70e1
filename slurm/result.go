package slurm

import (
	"context"
	"io"
	"path"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
)

// Result is the keeper's final state, or what a client wrote for a keeper that was killed.
func (l *Launcher) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.committed {
		if c.abandoned() {
			return nil, launcher.NotFound(id)
		}
		return nil, c.notEnded()
	}
	if over, err := c.over(ctx); err != nil {
		return nil, err
	} else if !over || c.result == nil {
		return nil, c.notEnded()
	}
	info := launcher.LogInfo{Path: path.Join(c.attemptDir(), keeper.DriverLog)}
	if c.result.Log != nil {
		info.Bytes, info.Missing = c.result.Log.Bytes, c.result.Log.Missing
	}
	if kind, err := l.site.files.kind(ctx, info.Path); err != nil || kind == "" {
		info.Path = "" // the driver never ran
	}
	return launcher.NewResult(c.status(c.result, Job{}), info, c.openLog), nil
}

// openLog opens the saved output of an attempt: the last is driver.log, earlier ones have files of their own, which each keeper gets from the
// one before.
func (c *cluster) openLog(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	file := path.Join(c.attemptDir(), keeper.DriverLog)
	if attempt != 0 && attempt != c.result.Attempt {
		file = path.Join(c.attemptDir(), keeper.AttemptLog(attempt))
	}
	return &reader{ctx: ctx, files: c.l.site.files, path: file, offset: offset}, nil
}
