package launcher

import (
	"errors"
	"fmt"
	"os/exec"
	"syscall"

	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// ExitError is an error for the user: one sentence with the thing and the cause, the next step, and the exit code.
type ExitError struct {
	Code    int
	Message string
	Hint    string // next step; may be empty
	Err     error  // cause for errors.Is; its text is already in Message
}

func (e *ExitError) Error() string {
	if e.Hint == "" {
		return e.Message
	}
	return e.Message + ": " + e.Hint
}

// Unwrap returns the cause.
func (e *ExitError) Unwrap() error { return e.Err }

// Kinds of failure that callers distinguish with errors.Is.
var (
	ErrNotFound = errors.New("no such cluster")
	ErrConflict = errors.New("the name is taken by another spec")
	ErrEnded    = errors.New("the cluster of that name has ended")
	ErrNotReady = errors.New("the cluster does not answer yet")
	ErrNotEnded = errors.New("the cluster has not ended")
)

// Fail makes an ExitError. hint is the next step and may be empty.
func Fail(code int, err error, hint, format string, args ...any) *ExitError {
	return &ExitError{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint, Err: err}
}

// LeftError is the failure to remove what a launch had made before its commit.
type LeftError struct {
	What string // what may be left, and where
	Err  error
}

func (e *LeftError) Error() string { return e.What + " could not be removed: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *LeftError) Unwrap() error { return e.Err }

// Left makes the LeftError of a failure; nil of none.
func Left(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &LeftError{fmt.Sprintf(format, args...), err}
}

// InterruptedLaunch is the error of a launch that the user interrupted before its commit. failed is what the launch returned: a LeftError in it is what
// is still there.
func InterruptedLaunch(id ID, cause, failed error) *ExitError {
	var left *LeftError
	if errors.As(failed, &left) {
		return Fail(runstate.CodeInterrupted, errors.Join(cause, left), "`rayctl down "+string(id)+"` removes it", "the launch of %s was interrupted, and %s", id, left)
	}
	return Fail(runstate.CodeInterrupted, cause, "", "the launch of %s was interrupted; nothing was left behind", id)
}

// NotFound is the error of an unknown cluster.
func NotFound(id ID) *ExitError {
	return Fail(runstate.CodeSpec, ErrNotFound, "`rayctl ls` shows yours", "no cluster named %q", string(id))
}

// NotEnded is the error of a request that needs an ended cluster (reading its result, removing its record) while the cluster lives.
func NotEnded(id ID) *ExitError {
	return Fail(runstate.CodeSpec, ErrNotEnded, "`rayctl down "+string(id)+"` ends it", "%s has not ended", string(id))
}

// Unsupported is the error of an ability that a launcher does not have. hint is what does the same or who can.
func Unsupported(l Launcher, what, hint string) *ExitError {
	return Fail(runstate.CodeUsage, errors.ErrUnsupported, hint, "%s is not supported by the %s launcher", what, l.Name())
}

// ExitCode is the process exit code for err: that of an ExitError, else 70.
func ExitCode(err error) int {
	var e *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.Code
	default:
		return runstate.CodeInternal
	}
}

// CommandCode is the exit code of a command that was run, 128+n if signal n ended it; err is another failure.
func CommandCode(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// SameSpec compares the wish with a living cluster: nil if they are the same, else ErrConflict. launched is the file that its record has, st the keeper's
// state, nil: not known. The keeper takes a changed file before the record has it, and a client may die in between: then neither file is the same until
// one of them is taken again, with its record.
func SameSpec(id ID, st *runstate.State, launched, s *spec.ClusterSpec) error {
	diff := spec.Diff(launched, s)
	if len(diff) == 0 && !TookAnother(st, s) {
		return nil
	}
	if len(diff) == 0 {
		return Conflict(id, ChangedMeanwhile)
	}
	return Conflict(id, spec.OwnAndYours(diff))
}

// TookAnother reports whether the keeper has taken a changed file other than this one.
func TookAnother(st *runstate.State, s *spec.ClusterSpec) bool {
	return st != nil && st.Changes > 0 && st.SpecHash != spec.Hash(s)
}

// ChangedMeanwhile is the difference of a spec that a keeper has taken since, and that nobody has recorded.
const ChangedMeanwhile = "its cluster file was changed while it ran"

// SizesHint is the next step where a group cannot have a size.
const SizesHint = "`rayctl status -v` shows the groups and their limits, which only a new cluster can change: `rayctl up NAME --workers MIN:MAX --recreate` ends this one and what runs on it"

// Conflict is ErrConflict with what differs.
func Conflict(id ID, difference string) error {
	return Fail(runstate.CodeSpec, ErrConflict, "choose another name, or replace it with --recreate", "a cluster named %s exists with another spec (%s)", id, difference)
}
