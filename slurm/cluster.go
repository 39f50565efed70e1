package slurm

import (
	"context"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/site"
)

// cluster is one run of the launcher, with its directory and its job.
type cluster struct {
	l      *Launcher
	run    *rundir.Run
	around site.Around // the allocation that its launch is called in, where slurm.job is current

	answered time.Time // when the controller was asked for the answer that askController has used last; zero: never
	released time.Time // when Slurm released the nodes of a job that it has ended, or queued again; zero: it is not known

	stepsLeft int // of a run inside somebody else's allocation, when Slurm was asked last
	stepsAt   time.Time
}

// cluster names a run, without reading its files.
func (l *Launcher) cluster(ctx context.Context, name string) (*cluster, error) {
	run, err := l.site.Runs.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	return &cluster{l: l, run: run}, nil
}

// open reads a cluster; ErrNotFound if there is none.
func (l *Launcher) open(ctx context.Context, id launcher.ID) (*cluster, error) {
	c, err := l.cluster(ctx, string(id))
	if err != nil {
		return nil, err
	}
	if err := c.run.Read(ctx); err != nil {
		return nil, err
	}
	if c.run.Record == nil {
		return nil, launcher.NotFound(id)
	}
	return c, nil
}

// isCompanion reports whether a job is one for other nodes of the cluster, besides its own job.
func (c *cluster) isCompanion(j controller.Job) bool {
	return j.Name == script.CompanionName(c.run.Record.Spec, c.run.Record.Nonce)
}
