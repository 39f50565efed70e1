package app

import (
	"context"
	"io"
	"strings"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
	"github.com/rayctl/rayctl/launcher/sharedrun"
)

// CopyLog shows the saved output of one attempt, without Ray's own first lines.
func CopyLog(ctx context.Context, w io.Writer, s *launcher.Status, open launcher.LogOpener, attempt int) error {
	saved, err := open(ctx, attempt, 0)
	if err != nil {
		return err
	}
	defer saved.Close()
	if s.Job == nil {
		_, err := io.Copy(w, saved)
		return err
	}
	id, begin := s.Job.SubmissionID, s.Job.LogBegin
	for _, old := range s.Attempts {
		if old.Attempt == attempt && old.SubmissionID != "" {
			id, begin = old.SubmissionID, old.LogBegin
		}
	}
	own := driverio.NewAttemptOutput(w, s.Job, id, begin)
	if _, err := io.Copy(own, saved); err != nil {
		return err
	}
	return own.Flush()
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

// IsShared reports whether an argument is the path of a run that another user shares (job.shareDir). Names of clusters have no slash.
func IsShared(name string) bool { return strings.Contains(name, "/") }

// shared is such a run.
func (a *App) shared(dir string) (*Cluster, error) {
	l, id, err := sharedrun.Open(dir)
	if err != nil {
		return nil, err
	}
	return &Cluster{Launcher: l, ID: id}, nil
}

// SharedLog opens what is copied of the output of a shared run, also while it lives; nil: the cluster is not shared.
func (c *Cluster) SharedLog() launcher.LogOpener {
	if l, ok := c.Launcher.(*sharedrun.Launcher); ok {
		return l.OpenLog
	}
	return nil
}
