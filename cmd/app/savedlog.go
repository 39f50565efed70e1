package app

import (
	"context"
	"io"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
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
