package app

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/sharedrun"
	"github.com/rayctl/rayctl/launcher/sleep"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Cluster is one cluster that a command works on.
type Cluster struct {
	Launcher launcher.Launcher
	ID       launcher.ID
	Spec     *spec.ClusterSpec // of the file in force, which may be another cluster's

	result *launcher.Result // that was read; it does not change any more
}

// Status is the cluster's current state.
func (c *Cluster) Status(ctx context.Context) (launcher.Status, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	statuses, err := c.Launcher.Watch(ctx, c.ID)
	if errors.Is(err, launcher.ErrNotFound) {
		if r, rerr := c.Result(ctx); rerr == nil {
			return r.Status, nil
		}
	}
	if err != nil {
		return launcher.Status{}, err
	}
	select {
	case s, ok := <-statuses:
		if ok {
			return s, nil
		}
		if err := ctx.Err(); err != nil {
			return launcher.Status{}, err
		}
		return launcher.Status{}, launcher.NotFound(c.ID)
	case <-ctx.Done():
		return launcher.Status{}, ctx.Err()
	}
}

// UntilEnded waits until the cluster has ended or no longer exists; it returns false if ctx ended before. If a watch breaks off, it watches again.
func (c *Cluster) UntilEnded(ctx context.Context) bool {
	for ctx.Err() == nil {
		statuses, err := c.Launcher.Watch(ctx, c.ID)
		if errors.Is(err, launcher.ErrNotFound) {
			return true
		}
		if err == nil {
			for s := range statuses {
				if s.Phase.Ended() {
					return true
				}
			}
		}
		sleep.For(ctx, 5*time.Second)
	}
	return false
}

// CopyLog shows the saved output of one attempt from a byte on, without Ray's own lines.
func CopyLog(ctx context.Context, w io.Writer, s *launcher.Status, open launcher.LogOpener, attempt int, from int64) error {
	saved, err := open(ctx, attempt, from)
	if err != nil {
		return err
	}
	defer saved.Close()
	if s.Job == nil {
		_, err := io.Copy(w, saved)
		return err
	}
	id, begin := driverOf(s, attempt)
	own := driverio.NewAttemptOutput(w, s.Job, id, begin, from)
	if _, err := io.Copy(own, saved); err != nil {
		return err
	}
	return own.Flush()
}

// driverOf returns, for a run with a job, the submission id of an attempt's driver, and the offset in the attempt's saved log at which the driver's output begins
// (LogBegin).
func driverOf(s *launcher.Status, attempt int) (id string, begin int64) {
	id, begin = s.Job.SubmissionID, s.Job.LogBegin
	for _, old := range s.Attempts {
		if old.Attempt == attempt && old.SubmissionID != "" {
			id, begin = old.SubmissionID, old.LogBegin
		}
	}
	return id, begin
}

// KeptJob is the last record of a job that was submitted to a cluster which has ended; ErrEnded: there is none.
func (c *Cluster) KeptJob(ctx context.Context, id string) (*dashboardclient.Job, error) {
	r, err := c.Result(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := r.Jobs.List(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(jobs, func(j dashboardclient.Job) bool { return j.SubmissionID == id }); i >= 0 {
		return &jobs[i], nil
	}
	return nil, launcher.Fail(runstate.CodeSpec, launcher.ErrEnded, "`rayctl jobs "+string(c.ID)+"` lists those that it has", "cluster %s has ended, and its record has no job %s", c.ID, id)
}

// Result is the result of an ended cluster, which is read only once.
func (c *Cluster) Result(ctx context.Context) (*launcher.Result, error) {
	if c.result != nil {
		return c.result, nil
	}
	r, err := c.Launcher.Result(ctx, c.ID)
	if err == nil {
		c.result = r
	}
	return r, err
}

// Remade is the name of a standing cluster whose environment rayctl makes, so that jobs have other packages in it if the cluster is made again; "" for others.
func (c *Cluster) Remade(ctx context.Context) string {
	if c == nil || spec.SubstrateOf(c.Launcher.Name()).Environment == nil {
		return ""
	}
	s, err := c.Launcher.Accepted(ctx, c.ID)
	if err != nil || s.Job.Entrypoint != "" || spec.SubstrateOf(c.Launcher.Name()).Environment(s) == nil {
		return ""
	}
	return string(c.ID)
}

// IsShared reports whether an argument is the path of a run that another user shares (job.shareDir). Names of clusters have no slash.
func IsShared(name string) bool { return strings.Contains(name, "/") }

// shared is the run at the path that another user shares.
func (a *App) shared(dir string) (*Cluster, error) {
	l, id, err := sharedrun.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Cluster{Launcher: l, ID: id}, nil
}

// Shared has the output of a run that another user shares; nil: the cluster is the user's own.
func (c *Cluster) Shared() launcher.LogSource {
	if l, ok := c.Launcher.(*sharedrun.Launcher); ok {
		return l
	}
	return nil
}
