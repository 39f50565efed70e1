package launcher

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Exit is how a run ended, and whose exit code it is.
type Exit struct {
	Origin    string `json:"origin"`           // "driver": the driver's own code; "rayctl": one of the Code constants
	Cause     string `json:"cause"`            // succeeded, driver-failed, interrupted, idle, max, lost, ... (docs/keeper.md)
	Code      int    `json:"code"`             // what `rayctl run` exits with
	Signal    *int   `json:"signal,omitempty"` // that ended the driver
	Message   string `json:"message,omitempty"`
	Retryable bool   `json:"retryable"` // the same command may succeed if repeated: the substrate failed, not the job
}

// Result is the outcome of a cluster that has ended; it outlives the cluster for lifetime.keep.
type Result struct {
	Status         // final, phase Gone
	Log    LogInfo `json:"log"`
	open   LogOpener
}

// LogInfo describes the saved output of the driver.
type LogInfo struct {
	Bytes   int64      `json:"bytes"`             // length of the driver's log as Ray wrote it
	Missing [][2]int64 `json:"missing,omitempty"` // byte ranges [from, to) that could not be saved
	Path    string     `json:"path,omitempty"`    // where it is, if it is a file
}

// MissingOutput says which range of the driver's output was not saved; one that ends with -1 goes to the end, wherever that was.
func MissingOutput(r [2]int64) string {
	switch {
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
	return &Result{Status: s, Log: log, open: open}
}

// recordless is the result of a cluster whose record was deleted with it: what was seen last, and no log.
func recordless(last Status) *Result {
	return NewResult(last, LogInfo{Missing: [][2]int64{{0, -1}}}, func(context.Context, int, int64) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("")), nil
	})
}

// OpenLog opens the driver's saved output of one attempt (0: the last) at a byte offset of the log as Ray wrote it. A
// saved log that ends before offset reads as empty.
func (r *Result) OpenLog(ctx context.Context, attempt int, offset int64) (io.ReadCloser, error) {
	return r.open(ctx, attempt, offset)
}

// ExitCodeFor maps a keeper's cause to the exit code of `rayctl run`; ok is false where the driver's own code counts.
func ExitCodeFor(cause string) (code int, ok bool) {
	codes := map[string]int{
		"interrupted": CodeInterrupted, "down": CodeInterrupted, "disconnected": CodeInterrupted,
		"idle": 0, "max": CodeTimeLimit, "total": CodeTimeLimit, "time-limit": CodeTimeLimit,
		"queue": CodeQueueTimeout, "abandoned": CodeInterrupted,
		"start-failed": CodeStartFailed, "package-failed": CodeStartFailed, "submit-failed": CodeStartFailed,
		"lost": CodeLost, "preempted": CodeLost,
	}
	code, ok = codes[cause]
	return code, ok
}

// Retryable says of a keeper's cause whether the same command may succeed if repeated, where nothing more is known of the end.
func Retryable(cause string) bool {
	return slices.Contains([]string{"lost", "preempted", "start-failed", "queue", "abandoned", "disconnected"}, cause)
}
