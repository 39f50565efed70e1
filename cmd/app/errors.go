package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/dashboardclient/pack"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Exit is an exit without a message, because one was printed already or the code is the driver's own.
type Exit int

func (c Exit) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// ExitOrNil turns a driver's code into the error of a run function. A number that is no exit code, which only a false document has, is
// runstate.CodeInternal: the system would take its last eight bits, which may be 0.
func ExitOrNil(code int) error {
	switch {
	case code == 0:
		return nil
	case code < 0 || code > 255:
		return Exit(runstate.CodeInternal)
	}
	return Exit(code)
}

// UsageError is a mistake in the command line, exit code 64.
func UsageError(hint, format string, args ...any) error {
	return launcher.Fail(runstate.CodeUsage, nil, hint, format, args...)
}

// Sentence is the error's text for the user: errors of the cluster file one a line, everything else in one.
func Sentence(err error) string {
	if es := spec.AsErrors(err); es != nil {
		return es.Error()
	}
	return strings.Join(strings.Fields(strings.ReplaceAll(err.Error(), "\n", " ")), " ")
}

// ExitCode maps every kind of failure to its exit code.
func ExitCode(err error) int {
	var silent Exit
	var own *launcher.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &silent):
		return int(silent)
	case errors.As(err, &own):
		return own.Code
	case spec.AsErrors(err) != nil:
		return specCode(spec.AsErrors(err))
	case errors.Is(err, dashboardclient.ErrUnauthorized), errors.Is(err, keeper.ErrNotPermitted):
		return runstate.CodePermission
	case errors.Is(err, dashboardclient.ErrNotFound), errors.Is(err, dashboardclient.ErrConflict), errors.Is(err, dashboardclient.ErrInvalid), errors.Is(err, dashboardclient.ErrTooLarge), errors.Is(err, pack.ErrTooLarge):
		return runstate.CodeSpec
	case errors.Is(err, dashboardclient.ErrUnreachable), errors.Is(err, dashboardclient.ErrUnsupported):
		return runstate.CodeUnreachable
	case errors.Is(err, context.Canceled):
		return runstate.CodeInterrupted
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return runstate.CodeStartFailed
	case errors.Is(err, fs.ErrPermission):
		return runstate.CodePermission
	case errors.Is(err, fs.ErrNotExist):
		return runstate.CodeSpec
	default:
		var apiErr *dashboardclient.APIError
		if errors.As(err, &apiErr) {
			return runstate.CodeUnreachable
		}
		return runstate.CodeInternal
	}
}

// specCode: errors that are only in flags are wrong usage.
func specCode(es spec.Errors) int {
	for _, e := range es {
		if !strings.HasPrefix(e.File, "--") {
			return runstate.CodeSpec
		}
	}
	return runstate.CodeUsage
}
