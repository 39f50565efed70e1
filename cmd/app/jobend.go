package app

import (
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rayctl/rayctl/cmd/terminal"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// JobOutcome returns the error with which the command exits. If the driver ran to its end, that is the driver's exit code without a message; else it is a code of
// rayctl with a sentence. notStarted is the reason why the driver did not start, if the caller knows more than the job's record says.
func JobOutcome(a *App, j *dashboardclient.Job, notStarted string) error {
	code, own := JobCode(j)
	if name := unix.SignalName(syscall.Signal(code - 128)); own && name != "" {
		a.UI.Note("job %s failed: the driver was ended by %s, exit code %d", JobName(j), name, code)
		if code == 128+int(syscall.SIGKILL) {
			HintKilled(a.UI)
		}
	}
	if own || code == 0 {
		return ExitOrNil(code)
	}
	if notStarted != "" {
		return launcher.Fail(code, nil, jobNextStep[code], "job %s failed: the driver did not start: %s", JobName(j), terminal.OneLine(notStarted))
	}
	return launcher.Fail(code, nil, jobNextStep[code], "job %s %s: %s", JobName(j), strings.ToLower(string(j.Status)), terminal.OrDash(terminal.OneLine(j.Message)))
}

// jobNextStep is the hint by exit code. A stopped job (CodeInterrupted) has none: a user wanted its end.
var jobNextStep = map[int]string{
	runstate.CodeStartFailed: "correct what the job asks for and submit it again",
	runstate.CodeLost:        "submit it again; `rayctl events` tells what happened to the cluster's nodes",
}

// oldJobExit finds the driver's exit code in messages of Ray before 2.10.
var oldJobExit = regexp.MustCompile(`exit code (-?\d+)`)

// JobCode returns the exit code for an ended job; own is true if the driver itself ended with it.
func JobCode(j *dashboardclient.Job) (code int, own bool) {
	switch {
	case j.Status == dashboardclient.JobSucceeded:
		return 0, true
	case j.Status == dashboardclient.JobStopped:
		return runstate.CodeInterrupted, false
	case j.DriverExitCode != nil && *j.DriverExitCode != 0:
		return ShellCode(*j.DriverExitCode), true
	}
	if m := oldJobExit.FindStringSubmatch(j.Message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n != 0 {
			return ShellCode(n), true
		}
	}
	if jobStartFailure[j.ErrorType] || j.StartTime.IsZero() || strings.Contains(j.Message, "runtime_env") {
		return runstate.CodeStartFailed, false
	}
	return runstate.CodeLost, false
}

// jobStartFailure has the error types that Ray gives to a job whose driver never ran.
var jobStartFailure = map[string]bool{
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

// JobName returns the id by which commands take the job: its submission id, or Ray's job id if it has none.
func JobName(j *dashboardclient.Job) string {
	if j.SubmissionID != "" {
		return j.SubmissionID
	}
	return j.JobID
}
