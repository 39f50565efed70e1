package dashboardclient

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/dashboardclient/logstream"
)

// FollowOptions configures a Follower.
type FollowOptions struct {
	// Offset is the number of raw bytes of the log to skip, as returned by an earlier Follower.Offset.
	Offset int64
	// Tail, if positive, skips all but the last Tail lines that exist when following starts, and overrides Offset.
	Tail int
	// StripHeader leaves out the lines that Ray itself writes near the beginning of a driver's log ("Runtime env is
	// setting up.", "Running entrypoint for job ..."), if they have exactly Ray's form. Offsets count them nevertheless.
	StripHeader bool
	// OnStatus, if given, is called from Run with the job at each observed change of its status.
	OnStatus func(Job)
	// OnInterrupted, if given, is called with the cause when the connection was lost, and with nil when it is back. Calls may be
	// concurrent with OnStatus and w, but not with each other.
	OnInterrupted func(error)
}

// Follower copies a driver's log as it is written, byte for byte.
type Follower struct {
	id     string
	opts   FollowOptions
	client *Client
	tailer *logstream.Tailer
	status JobStatus // last reported
}

// FollowJob prepares to follow the log of the job with this submission id. The job may still be pending.
func (c *Client) FollowJob(id string, opts FollowOptions) *Follower {
	offset := opts.Offset
	if opts.Tail > 0 {
		offset = 0
	}
	t := logstream.NewTailer(c.driverLog("", id), nil, offset, c.config.Logger, opts.OnInterrupted) // the node is not known yet
	return &Follower{id: id, opts: opts, client: c, tailer: t}
}

// Offset is the number of raw bytes of the log that were written to w or skipped so far. It may be called at any time.
func (f *Follower) Offset() int64 { return f.tailer.Position() }

// Run copies the log to w until the job is terminal and all its bytes were written, and returns the job. Run restores lost
// connections until ctx ends, without losing or repeating a byte. It returns ErrNotFound when the job does not exist
// (any more: the head was replaced), ErrUnauthorized, and w's errors. With an error it also returns the job as last seen: if
// that is terminal, its log could not be read to the end. Run may be called again after an error, and continues at Offset.
func (f *Follower) Run(ctx context.Context, w io.Writer) (*Job, error) {
	job, err := f.watch(ctx, jobRhythm, func(job *Job) bool {
		return job.Status.Terminal() || job.Status != JobPending && job.DriverNodeID != ""
	})
	if err != nil {
		return job, err
	}
	if err := f.prepare(ctx, job); err != nil {
		return job, err
	}
	if !job.Status.Terminal() {
		job, err = f.runLive(ctx, w, job)
		if err != nil {
			return job, err
		}
	}
	return job, f.finish(ctx, w, job)
}

// prepare sets the tailer's file to the driver's log, once its node is known.
func (f *Follower) prepare(ctx context.Context, job *Job) error {
	node := job.DriverNodeID
	if node == "" { // failed before a driver was started: Ray's lines are on the head
		head, err := f.client.headNode(ctx)
		if err != nil {
			return err
		}
		node = head
	}
	strip := func(offset int64) *logstream.Stripper {
		if !f.opts.StripHeader {
			return nil
		}
		return logstream.NewStripper(f.id, job.Entrypoint, offset)
	}
	file := f.client.driverLog(node, f.id)
	f.tailer.Resume(file, strip)
	if f.opts.Tail <= 0 {
		return nil
	}
	lines := f.opts.Tail
	f.opts.Tail = 0 // only once: a second Run continues where this one ends
	if err := f.tailer.SeekTail(ctx, lines); err != nil {
		return fmt.Errorf("find the last %d lines of the log of job %s: %w", lines, f.id, err)
	}
	f.tailer.Resume(file, strip)
	return nil
}

// runLive streams the log and watches the job until the job is terminal.
func (f *Follower) runLive(ctx context.Context, w io.Writer, job *Job) (*Job, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	streaming, stop := context.WithCancel(groupCtx)
	defer stop()
	group.Go(func() error { return f.tailer.Follow(streaming, w) })
	group.Go(func() error {
		defer stop()
		latest, err := f.watch(groupCtx, endRhythm, func(job *Job) bool { return job.Status.Terminal() })
		if latest != nil {
			job = latest
		}
		return err
	})
	err := group.Wait()
	return job, err
}

// finish writes the bytes between the last read of the log and the job's end.
func (f *Follower) finish(ctx context.Context, w io.Writer, job *Job) error {
	err := f.tailer.Finish(ctx, w)
	var answered *APIError
	if errors.As(err, &answered) && job.DriverNodeID == "" && !errors.Is(err, ErrUnauthorized) {
		return nil // the job never had a driver, and so no log
	}
	return err
}

// watch polls the job until it is as wanted. It returns the job as last seen.
func (f *Follower) watch(ctx context.Context, wait rhythm, wanted func(*Job) bool) (*Job, error) {
	var job *Job
	err := pollUntil(ctx, wait, func() (bool, error) {
		got, err := f.client.getJob(ctx, request{once: true, limit: lookLimit}, f.id)
		if err != nil {
			return false, f.tolerate(err)
		}
		job = got
		if got.Status != f.status {
			f.status = got.Status
			if f.opts.OnStatus != nil {
				f.opts.OnStatus(*got)
			}
		}
		return wanted(got), nil
	})
	return job, err
}

// tolerate returns nil for an error that may be temporary.
func (f *Follower) tolerate(err error) error {
	var answered *APIError
	passing := errors.Is(err, ErrUnreachable) || errors.As(err, &answered) && answered.Status >= 500
	if !passing {
		return err
	}
	if errors.Is(err, ErrUnreachable) {
		f.tailer.Lost(err)
	}
	return nil
}
