package runstate

import (
	"strings"
	"time"
)

// Signalled begins a keeper's message when a signal ended it, whose reason it cannot see.
const Signalled = "the keeper received SIG"

// signalledBefore is Signalled of keepers of a rayctl before November 2026, which may still run.
const signalledBefore = "the keeper was told to end by SIG"

// BySignal reports whether a keeper's message begins with Signalled.
func BySignal(message string) bool {
	return strings.HasPrefix(message, Signalled) || strings.HasPrefix(message, signalledBefore)
}

// StartedAgain begins the message of a node's event if the node was lost and started again before Ray had seen its loss.
const StartedAgain = "it was started again"

// Verdict is how a cluster ended whose keeper is dead and left no result.
type Verdict struct {
	Cause, Message string
	At             time.Time // when it ended, as far as that is known
	By             string    // user@host who found it, or ended it
	Final          bool      // the same again would end the same way, whatever the cause
}

// GivenUp is the verdict on a launch whose client ended, or was interrupted, before the commit.
func GivenUp() Verdict {
	return Verdict{Cause: CauseAbandoned, Message: "its launch was cancelled before it was committed"}
}

// Conclude is the last state of a cluster whose keeper is dead, for whoever writes the result in its place (what does so on the nodes: keeper/rayctl_keeper/state/conclude.py). st is the last that the keeper wrote; it is
// changed. An end that the keeper was carrying out is the cluster's (see exit). What the saved log has is left to the caller.
func Conclude(st *State, v Verdict) *State {
	if n := len(st.Timeline); n > 0 && v.At.Before(st.Timeline[n-1].At) {
		v.At = st.Timeline[n-1].At
	}
	st.Exit = exit(st, v)
	st.Revision++
	st.Phase, st.Since, st.Reason = Gone, v.At, Reason{Code: st.Exit.Cause, Message: st.Exit.Message}
	st.Timeline = append(st.Timeline, Event{
		At: v.At, Attempt: st.Attempt, Kind: EventPhase, To: string(Gone), Code: st.Exit.Cause, Message: st.Exit.Message,
	})
	st.Attempts = withLast(st)
	return st
}

// Overrule gives a result another cause: that of a keeper which ended between two attempts, the second of which does not come.
func Overrule(st *State, v Verdict) {
	st.Exit = exit(st, v)
	st.Reason = Reason{Code: v.Cause, Message: v.Message}
	if n := len(st.Attempts); n > 0 {
		st.Attempts[n-1].Cause, st.Attempts[n-1].Message = v.Cause, v.Message
	}
}

// exit is the exit of a cluster whose keeper was lost: that of the end which the keeper was carrying out then (phase Draining), with the driver's own
// code if it had one. Without such an end it is the verdict's.
func exit(st *State, v Verdict) *Exit {
	e := Ours(v.Cause, v.Message)
	if begun := st.Reason; st.Phase == Draining && !BySignal(begun.Message) {
		_, ours := CauseOf(begun.Code)
		switch {
		case ours && begun.Code != v.Cause:
			e = Ours(begun.Code, begun.Message+"; meanwhile "+v.Message)
		case ours:
		case begun.Code == CausePrepareFailed && st.Job != nil && st.Job.Prepare != nil && st.Job.Prepare.ExitCode != nil:
			p := st.Job.Prepare
			return &Exit{Origin: OriginPrepare, Cause: begun.Code, Code: *p.ExitCode, Signal: p.Signal, Message: begun.Message, By: v.By}
		case st.Job != nil && st.Job.ExitCode != nil:
			return &Exit{
				Origin: OriginDriver, Cause: begun.Code, Code: *st.Job.ExitCode, Signal: st.Job.Signal, Message: begun.Message, By: v.By,
			}
		}
	}
	e.By, e.Retryable = v.By, e.Retryable && !v.Final
	return e
}

// withLast are all attempts, also the one whose keeper died.
func withLast(st *State) []Attempt {
	if st.Job == nil || st.Job.SubmissionID == "" || len(st.Attempts) > 0 && st.Attempts[len(st.Attempts)-1].Attempt == st.Attempt {
		return st.Attempts
	}
	end := st.Since
	last := Attempt{Attempt: st.Attempt, SubmissionID: st.Job.SubmissionID, Start: st.Job.Start, End: &end, Cause: st.Exit.Cause, Message: st.Exit.Message, LogBegin: st.Job.LogBegin}
	switch st.Exit.Origin {
	case OriginDriver:
		last.End, last.ExitCode = st.Job.End, &st.Exit.Code
	case OriginPrepare:
		last.ExitCode = &st.Exit.Code
	}
	return append(st.Attempts, last)
}
