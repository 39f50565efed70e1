package dashboardclient

import "errors"

// Kinds of failure, for errors.Is.
var (
	// ErrUnauthorized: the dashboard wants a token and got none (401) or a wrong one (403).
	ErrUnauthorized = errors.New("not authorized")
	// ErrNotFound: the job, package or log file does not exist on this cluster.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the submission id is taken by another job.
	ErrConflict = errors.New("conflict")
	// ErrUnreachable: no answer could be had from the dashboard: it is down, the address is wrong, or the connection broke.
	ErrUnreachable = errors.New("unreachable")
	// ErrUnsupported: this version of Ray cannot do what was asked.
	ErrUnsupported = errors.New("unsupported")
	// ErrTooLarge: the package is larger than what Ray stores.
	ErrTooLarge = errors.New("too large")
)

// APIError is a dashboard's refusal, with its own words reduced to one line.
type APIError struct {
	// Doing is what was being done, as in "submit job raysubmit_1".
	Doing string
	// Status is the HTTP status code.
	Status int
	// Message is the telling line of the server's answer: the last line of a traceback, or the text itself.
	Message string
	kind    error
}

// UnsupportedError says which feature this version of Ray does not have. It matches ErrUnsupported.
type UnsupportedError struct {
	// Feature is what was asked for, as in "token authentication".
	Feature string
	// RayVersion is the dashboard's version.
	RayVersion string
}

func (e *APIError) Error() string { panic("later") }

// Is matches the kind of failure.
func (e *APIError) Is(target error) bool { return e.kind == target }

func (e *UnsupportedError) Error() string { panic("later") }

// Is matches ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }
