package launcher

import (
	"context"
	"fmt"
	"io"
	"strings"
)

// Result is the outcome of a cluster that has ended; it outlives the cluster for lifetime.keep.
type Result struct {
	Status         // final, phase Gone
	Log    LogInfo `json:"log"`
	open   LogOpener
	// Jobs is what is kept of jobs that others submitted; nil: nothing.
	Jobs *KeptJobs `json:"-"`
}

// LogInfo describes the saved output of the driver.
type LogInfo struct {
	Bytes   int64      `json:"bytes"`             // length of the driver's log as Ray wrote it
	Missing [][2]int64 `json:"missing,omitempty"` // byte ranges [from, to) that could not be saved
	Path    string     `json:"path,omitempty"`    // where it is, if it is a file
}

// MissingOutput describes a range of the driver's output that was not saved; the end -1 means the unknown end of the output. An empty range is the place
// in the saved copy where the log was truncated.
func MissingOutput(r [2]int64) string {
	switch {
	case r[0] == r[1]:
		return fmt.Sprintf("Output may be missing at byte %d, where the driver's log was truncated", r[0])
	case r[1] >= 0:
		return fmt.Sprintf("Bytes %d to %d of the output were not saved", r[0], r[1])
	case r[0] == 0:
		return "The output was not saved"
	}
	return fmt.Sprintf("Output after byte %d was not saved", r[0])
}

// LogOpener opens the saved log of one attempt at a byte offset.
type LogOpener func(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error)

// NewResult builds a Result; launchers only.
func NewResult(s Status, log LogInfo, open LogOpener) *Result {
	s.missing(log.Missing)
	return &Result{Status: s, Log: log, open: open}
}

// Recordless is the result of a cluster whose record is not there or cannot be read: the Status seen last, and no log.
func Recordless(last Status) *Result {
	return NewResult(last, LogInfo{Missing: [][2]int64{{0, -1}}}, func(context.Context, int, int64) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("")), nil
	})
}

// OpenLog opens the driver's saved output of one attempt (0: the last) at a byte offset of the log as Ray wrote it. A
// saved log that ends before offset reads as empty.
func (r *Result) OpenLog(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	return r.open(ctx, attempt, offset)
}
