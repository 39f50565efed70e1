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

// cluster is one cluster of the launcher, with its run directory and its job.
type cluster struct {
	l      *Launcher
	run    *rundir.Run
	around site.Around // with slurm.job: current, the allocation in which the launch was called

	answered time.Time // the time of the controller's answer that askController used last; zero: it has used none
	released time.Time // when Slurm released the nodes of a job that it ended or queued again; zero: not known

	stepsLeft int       // with slurm.job: current, the number of the cluster's steps that were still running at stepsAt
	stepsAt   time.Time // when Slurm was asked for them
}

// cluster returns the cluster of this name, without reading its files.
func (l *Launcher) cluster(ctx context.Context, name string) (*cluster, error) {
	run, err := l.site.Runs.Run(ctx, name)
	if err != nil {
		return nil, err
	}
	return &cluster{l: l, run: run}, nil
}

// open returns a cluster whose files it has read; ErrNotFound if there is none of this name.
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

// isCompanion reports whether a job is a companion job of the cluster: one for further nodes, besides the cluster's own job.
func (c *cluster) isCompanion(j controller.Job) bool {
	return j.Name == script.CompanionName(c.run.Record.Spec, c.run.Record.Nonce)
}
