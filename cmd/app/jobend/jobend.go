// Package jobend turns Ray's record of an ended job into an exit code and a sentence.
package jobend

import (
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/driverend"
	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// Outcome returns the driver's exit code as the command's, with a sentence if the driver did not choose it. notStarted is why the driver did not start, if
// more is known than the job's record has.
func Outcome(a *app.App, j *dashboardclient.Job, notStarted string) error {
	code, own := Code(j)
	if name := unix.SignalName(syscall.Signal(code - 128)); own && name != "" {
		a.UI.Note("job %s failed: the driver was ended by %s, exit code %d", Name(j), name, code)
		if code == 128+int(syscall.SIGKILL) {
			driverend.HintKilled(a.UI)
		}
	}
	if own || code == 0 {
		return app.ExitOrNil(code)
	}
	if notStarted != "" {
		return launcher.Fail(code, nil, "", "job %s failed: the driver did not start: %s", Name(j), terminal.OneLine(notStarted))
	}
	return launcher.Fail(code, nil, "", "job %s %s: %s", Name(j), strings.ToLower(string(j.Status)), terminal.OrDash(terminal.OneLine(j.Message)))
}

// oldExit finds the driver's exit code in messages of Ray before 2.10.
var oldExit = regexp.MustCompile(`exit code (-?\d+)`)

// Code is the code to exit with for an ended job; own is true if it is the driver's.
func Code(j *dashboardclient.Job) (code int, own bool) {
	switch {
	case j.Status == dashboardclient.JobSucceeded:
		return 0, true
	case j.Status == dashboardclient.JobStopped:
		return runstate.CodeInterrupted, false
	case j.DriverExitCode != nil && *j.DriverExitCode != 0:
		return ShellCode(*j.DriverExitCode), true
	}
	if m := oldExit.FindStringSubmatch(j.Message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n != 0 {
			return ShellCode(n), true
		}
	}
	if startFailure[j.ErrorType] || j.StartTime.IsZero() || strings.Contains(j.Message, "runtime_env") {
		return runstate.CodeStartFailed, false
	}
	return runstate.CodeLost, false
}

// startFailure has Ray's error types of a driver that never ran.
var startFailure = map[string]bool{
	"RUNTIME_ENV_SETUP_FAILURE":          true,
	"JOB_SUPERVISOR_ACTOR_START_TIMEOUT": true,
	"JOB_SUPERVISOR_ACTOR_START_FAILURE": true,
	"JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE": true,
	"JOB_ENTRYPOINT_COMMAND_START_ERROR": true,
}

// ShellCode turns Python's -n for a signal into the shell's 128+n.
func ShellCode(n int) int {
	if n < 0 {
		return 128 - n
	}
	return n & 0xff
}

// Name is the id of a job for commands.
func Name(j *dashboardclient.Job) string {
	if j.SubmissionID != "" {
		return j.SubmissionID
	}
	return j.JobID
}
