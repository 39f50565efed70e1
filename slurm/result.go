package slurm

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"

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
	earlier, err := c.earlier(ctx)
	if err != nil {
		return nil, err
	}
	c.result.Attempts = append(earlier, c.result.Attempts...)
	info := launcher.LogInfo{Path: path.Join(c.attemptDir(), keeper.DriverLog)}
	if c.result.Log != nil {
		info.Bytes, info.Missing = c.result.Log.Bytes, c.result.Log.Missing
	}
	if kind, err := l.site.files.kind(ctx, info.Path); err != nil || kind == "" {
		info.Path = "" // the driver never ran
	}
	return launcher.NewResult(c.status(c.result, Job{}), info, c.openLog), nil
}

// cameBack says of the causes for which an attempt's job began again what happened.
var cameBack = map[string]string{
	keeper.CausePreempted: "its job was preempted or requeued",
	keeper.CauseLost:      "a node of its job failed",
	keeper.CauseTimeLimit: "its job reached Slurm's time limit",
}

// earlier lists the attempts before the job was requeued.
func (c *cluster) earlier(ctx context.Context) (out []keeper.Attempt, err error) {
	names, err := c.attempts(ctx)
	for _, name := range names {
		if c.path(name) == c.attemptDir() {
			continue
		}
		before := *c
		before.current.Attempt = name
		files, err := c.l.site.files.read(ctx, c.path(name, keeper.StateFile), c.path(name, keeper.ResultFile), c.path(name, againFile))
		if err != nil {
			return nil, c.l.cut(err)
		}
		var again struct{ Cause string }
		if _, err := decode(files, c.path(name, againFile), &again); err != nil {
			return nil, err
		}
		if err := before.documents(files, c.path(name)); err != nil {
			return nil, err
		}
		switch {
		case before.result != nil:
			for _, a := range before.result.Attempts {
				if message := cameBack[again.Cause]; message != "" && strings.HasPrefix(a.Message, signalled) {
					a.Cause, a.Message = again.Cause, message
				}
				out = append(out, a)
			}
		case before.state != nil:
			out = append(out, append(before.state.Attempts, keeper.Attempt{Attempt: before.state.Attempt, Cause: keeper.CauseLost, Message: "its node failed"})...)
		}
	}
	return out, c.l.cut(err)
}

// attempts lists the attempts' directories, in their order.
func (c *cluster) attempts(ctx context.Context) ([]string, error) {
	names, err := c.l.site.files.names(ctx, c.dir)
	names = slices.DeleteFunc(names, func(n string) bool { return n == "" || n[0] < '0' || n[0] > '9' })
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return slices.Compare([]byte(a), []byte(b))
	})
	return names, err
}

// openLog opens the saved output of an attempt: the last of a keeper is driver.log, earlier ones have files of their own.
func (c *cluster) openLog(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	file := path.Join(c.attemptDir(), keeper.DriverLog)
	if attempt != 0 {
		file = ""
		names, err := c.attempts(ctx)
		if err != nil {
			return nil, c.l.cut(err)
		}
		for _, name := range names {
			for _, candidate := range []string{c.path(name, keeper.AttemptLog(attempt)), c.path(name, keeper.DriverLog)} {
				if kind, err := c.l.site.files.kind(ctx, candidate); err == nil && kind == "file" && c.isOf(ctx, name, candidate, attempt) {
					file = candidate
				}
			}
		}
	}
	if file == "" { // the attempt never ran a driver
		return io.NopCloser(strings.NewReader("")), nil
	}
	return &reader{ctx: ctx, files: c.l.site.files, path: file, offset: offset}, nil
}

// isOf says whether a log is of that attempt: a keeper's driver.log is of the last attempt that it ran.
func (c *cluster) isOf(ctx context.Context, dir, file string, attempt int) bool {
	if path.Base(file) != keeper.DriverLog {
		return true
	}
	files, err := c.l.site.files.read(ctx, c.path(dir, keeper.StateFile))
	if err != nil {
		return false
	}
	var st keeper.State
	found, err := decode(files, c.path(dir, keeper.StateFile), &st)
	return err == nil && found && st.Attempt == attempt
}
