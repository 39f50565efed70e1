package runstate

import (
	"fmt"
	"strings"
)

// Whose exit code an Exit has.
const (
	OriginDriver = "driver"
	OriginRayctl = "rayctl"
)

// Exit is how a run ended, and whose exit code it is.
type Exit struct {
	Origin    string `json:"origin"` // OriginDriver: the driver's own code; OriginRayctl: one of the Code constants
	Cause     string `json:"cause"`  // one of Causes
	Code      int    `json:"code"`   // what `rayctl run` exits with
	Signal    *int   `json:"signal"` // that ended the driver
	Message   string `json:"message"`
	Retryable bool   `json:"retryable"`    // the same command may succeed if repeated
	By        string `json:"by,omitempty"` // user@host who asked for the end
}

// Ours is the exit by a cause of rayctl's own.
func Ours(cause, message string) *Exit {
	c, ok := CauseOf(cause)
	if !ok {
		c.Code = CodeInternal
	}
	return &Exit{Origin: OriginRayctl, Cause: cause, Code: c.Code, Message: message, Retryable: c.Retryable}
}

// Sentence says how the run ended and whose exit code it is.
func (e Exit) Sentence() string {
	who := "rayctl's exit code"
	if e.Origin == OriginDriver {
		who = "the driver's exit code"
	}
	s := fmt.Sprintf("%s, %s %d", strings.ReplaceAll(e.Cause, "-", " "), who, e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}
