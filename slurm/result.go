package slurm

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm/batchjob"
	"github.com/rayctl/rayctl/slurm/controller"
)

// Result is the keeper's final state, or what a client wrote for a keeper that was killed, or would write.
func (l *Launcher) Result(ctx context.Context, id launcher.ID) (*launcher.Result, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if !c.Committed {
		if c.Abandoned() {
			return nil, launcher.NotFound(id)
		}
		return nil, launcher.NotEnded(c.ID())
	}
	o, err := c.Outcome(ctx, time.Second)
	if err != nil && c.Settled(ctx) { // Slurm would only say that the nodes are free
		o, err = batchjob.Outcome{Over: true}, nil
	}
	if err != nil {
		return nil, err
	}
	if !o.Over || c.Record == nil {
		return nil, launcher.NotEnded(c.ID())
	}
	output := c.KeptOutput()
	st := c.Final(o.Verdict)
	if c.Result == nil {
		if output, err = c.Saved(ctx, st.Job, false); err != nil {
			return nil, err
		}
		st.Log = output.Log(st.Job)
	}
	r := launcher.NewResult(c.status(st, controller.Job{}), c.LogInfo(ctx, st), c.Opener(st, output))
	r.Jobs = c.KeptJobs()
	return r, nil
}
