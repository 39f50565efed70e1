package slurm

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm/controller"
)

// Result is the keeper's final state, or what a client wrote for a keeper that was killed, or would write.
func (l *Launcher) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.run.Committed {
		if c.run.Abandoned() {
			return nil, launcher.NotFound(id)
		}
		return nil, launcher.NotEnded(c.run.ID())
	}
	o, err := c.outcome(ctx, time.Second)
	if err != nil && c.run.Settled(ctx) { // Slurm would only say that the nodes are free
		o, err = outcome{ended: true}, nil
	}
	if err != nil {
		return nil, err
	}
	if !o.ended || c.run.Record == nil {
		return nil, launcher.NotEnded(c.run.ID())
	}
	output := c.run.KeptOutput()
	st := c.concluded(o.verdict)
	if c.run.Result == nil {
		if output, err = c.run.Saved(ctx, st.Job, false); err != nil {
			return nil, err
		}
		st.Log = output.Log(st.Job)
	}
	r := launcher.NewResult(c.status(st, controller.Job{}), c.run.LogInfo(ctx, st), c.run.Opener(st, output))
	r.Jobs = c.run.KeptJobs()
	return r, nil
}
