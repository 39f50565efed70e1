package dashboardclient

import (
	"context"
	"io"
)

// LogOptions selects a part of a log file.
type LogOptions struct {
	// Tail, if positive, is the number of last lines wanted; otherwise the whole file is.
	Tail int
	// Offset is the number of raw bytes to skip. It is not used with Tail.
	Offset int64
	// StripHeader is as in FollowOptions, for driver logs.
	StripHeader bool
}

// JobLog copies what there is of a driver's log to w and returns the number of raw bytes of the file that were passed over or written.
func (c *Client) JobLog(ctx context.Context, id string, w io.Writer, opts LogOptions) (int64, error) {
	panic("later")
}

// NodeLogs lists the log files of a node that match the glob ("" for all), by Ray's own categories ("gcs_server", "worker_out", ...).
func (c *Client) NodeLogs(ctx context.Context, nodeID, glob string) (map[string][]string, error) {
	panic("later")
}

// NodeLog copies one log file of a node to w.
func (c *Client) NodeLog(ctx context.Context, nodeID, name string, w io.Writer, opts LogOptions) (int64, error) {
	panic("later")
}

// FollowNodeLog copies one log file of a node to w as it grows, until ctx ends. Lost connections are healed.
func (c *Client) FollowNodeLog(ctx context.Context, nodeID, name string, w io.Writer, opts LogOptions) error {
	panic("later")
}
