package slurm

import (
	"context"
	"encoding/json"
	"io"
	"path"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/controller"
)

// Result is the keeper's final state, or what a client wrote for a keeper that was killed, or would write.
func (l *Launcher) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.committed {
		if c.abandoned() {
			return nil, launcher.NotFound(id)
		}
		return nil, launcher.NotEnded(c.id())
	}
	o, err := c.outcome(ctx, time.Second)
	if err != nil {
		return nil, err
	}
	if !o.over || c.record == nil {
		return nil, launcher.NotEnded(c.id())
	}
	output := &savedOutput{Parts: []outputPart{{path: path.Join(c.attemptDir(), keeper.DriverLog)}}}
	st := c.final(o.verdict)
	if c.result == nil {
		if output, err = c.saved(ctx, st.Job, false); err != nil {
			return nil, err
		}
		st.Log = output.log(st.Job)
	}
	return launcher.NewResult(c.status(st, controller.Job{}), c.logInfo(ctx, st), c.opener(st, output)), nil
}

func (c *cluster) logInfo(ctx context.Context, st *runstate.State) launcher.LogInfo {
	info := launcher.LogInfo{Path: path.Join(c.attemptDir(), keeper.DriverLog)}
	if st.Log != nil {
		info.Bytes, info.Missing = st.Log.Bytes, st.Log.Missing
	}
	if kind, err := c.l.site.files.Kind(ctx, info.Path); err != nil || kind == "" {
		info.Path = "" // the driver never ran
	}
	return info
}

// opener opens the saved output of an attempt: the last is driver.log, or what is to become it; earlier ones have files of their own, which each keeper
// gets from the one before.
func (c *cluster) opener(st *runstate.State, last *savedOutput) launcher.LogOpener {
	return func(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
		parts := last.Parts
		if attempt != 0 && attempt != st.Attempt {
			parts = []outputPart{{path: path.Join(c.attemptDir(), keeper.AttemptLog(attempt))}}
		}
		var readers []io.Reader
		for i, p := range parts {
			if i < len(parts)-1 && offset >= p.size { // the last one's size may not be known
				offset -= p.size
				continue
			}
			readers = append(readers, c.l.site.files.Reader(ctx, p.path, p.from+offset))
			offset = 0
		}
		return io.NopCloser(io.MultiReader(readers...)), nil
	}
}

// outputPart is the part of a file from a byte on.
type outputPart struct {
	path       string
	from, size int64
}

// UnmarshalJSON reads [path, from, size].
func (p *outputPart) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&p.path, &p.from, &p.size})
}
