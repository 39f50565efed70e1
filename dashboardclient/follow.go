package dashboardclient

import (
	"context"
	"io"
)

// FollowOptions shapes what a Follower shows.
type FollowOptions struct {
	// Offset is the number of raw bytes of the log to skip, as Follower.Offset reported it earlier.
	Offset int64
	// Tail, if positive, begins at the last Tail lines there are when following starts, and overrides Offset.
	Tail int
	// StripHeader leaves out the lines that Ray itself writes at the very beginning of a driver's log ("Runtime env is
	// setting up.", "Running entrypoint for job ..."), if they have exactly Ray's form. Offsets count them all the same.
	StripHeader bool
	// OnStatus, if given, is called from Run with the job whenever its status was seen to change.
	OnStatus func(Job)
	// OnInterrupted, if given, is called when the connection was lost (with the cause) and, with nil, when bytes flow again.
	OnInterrupted func(error)
}

// Follower copies a driver's log as it is written, byte for byte.
type Follower struct {
	offset int64
}

// FollowJob prepares to follow the log of the job with this submission id. The job may still be pending.
func (c *Client) FollowJob(id string, opts FollowOptions) *Follower { panic("later") }

// Run copies the log to w until the job is terminal and all its bytes were written, and returns the job. Lost connections are
// healed, without losing or repeating a byte, until ctx ends. It returns ErrNotFound when the job does not exist
// (any more: the head was replaced), ErrUnauthorized, and w's errors. Run may be called again after an error, and goes on at Offset.
func (f *Follower) Run(ctx context.Context, w io.Writer) (*Job, error) { panic("later") }

// Offset is the number of raw bytes of the log that were written to w or skipped so far. It may be called at any time.
func (f *Follower) Offset() int64 { return f.offset }
