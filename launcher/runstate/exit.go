package runstate

import (
	"cmp"
	"fmt"
	"strings"
)

// Values of Exit.Origin: who chose the exit code.
const (
	OriginDriver  = "driver"
	OriginPrepare = "prepare"
	OriginRayctl  = "rayctl"
)

// Exit is how a run ended, and whose exit code it is.
type Exit struct {
	Origin    string `json:"origin"` // OriginDriver, OriginPrepare: Code is the program's own exit code; OriginRayctl: Code is one of the Code constants
	Cause     string `json:"cause"`  // one of Causes
	Code      int    `json:"code"`   // what `rayctl run` exits with
	Signal    *int   `json:"signal"` // the signal that ended the driver or job.prepare
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`    // the same command may succeed if repeated
	By        string `json:"by,omitempty"` // user@host who asked for the end
}

// Ours makes an Exit whose code rayctl chooses by the cause.
func Ours(cause, message string) *Exit {
	c, ok := CauseOf(cause)
	if !ok {
		c.Code = CodeInternal
	}
	return &Exit{Origin: OriginRayctl, Cause: cause, Code: c.Code, Message: message, Retryable: c.Retryable}
}

// Sentence is what follows the run's name: how it ended, why, and the exit code where the driver did not choose it.
func (e Exit) Sentence() string {
	switch e.Cause {
	case CauseSucceeded:
		return "succeeded"
	case CauseDriverFailed:
		return "failed: " + cmp.Or(e.Message, fmt.Sprintf("the driver exited with code %d", e.Code))
	case CauseDriverSignaled:
		return fmt.Sprintf("failed: %s (exit code %d)", cmp.Or(e.Message, "a signal ended the driver"), e.Code)
	}
	if e.Cause == CausePrepareFailed {
		return fmt.Sprintf("failed: %s (exit code %d)", cmp.Or(e.Message, "job.prepare failed"), e.Code)
	}
	if e.Cause == CauseDown && strings.HasPrefix(e.Message, "ended by ") {
		return e.Message // the reader typed the command that it names, and needs no more
	}
	cause := strings.ReplaceAll(e.Cause, "-", " ")
	if e.Message == "" {
		return fmt.Sprintf("ended: %s (exit code %d)", cause, e.Code)
	}
	if strings.HasPrefix(e.Message, cause) {
		return fmt.Sprintf("ended: %s (exit code %d)", e.Message, e.Code)
	}
	return fmt.Sprintf("ended: %s (%s, exit code %d)", e.Message, cause, e.Code)
}
