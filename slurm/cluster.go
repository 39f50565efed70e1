package slurm

import (
	"context"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/slurm/batchjob"
	"github.com/rayctl/rayctl/slurm/site"
)

// cluster is one run of the launcher, with its directory and its job.
type cluster struct {
	*batchjob.Job
	l      *Launcher
	around site.Around // the allocation that its launch is called in, where slurm.job is current
}

// cluster names a run, without reading its files.
func (l *Launcher) cluster(ctx context.Context, name string) (*cluster, error) {
	run, err := l.site.Runs.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	return &cluster{Job: &batchjob.Job{Run: run, Site: l.site, Tunnels: l.tunnels}, l: l}, nil
}

// open reads a cluster; ErrNotFound if there is none.
func (l *Launcher) open(ctx context.Context, id launcher.ID) (*cluster, error) {
	c, err := l.cluster(ctx, string(id))
	if err != nil {
		return nil, err
	}
	if err := c.Look(ctx); err != nil {
		return nil, err
	}
	if c.Record == nil {
		return nil, launcher.NotFound(id)
	}
	return c, nil
}
