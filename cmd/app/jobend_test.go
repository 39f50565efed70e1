package app_test

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher/runstate"
)

func TestJobCode(t *testing.T) {
	code := func(n int) *int { return &n }
	start := time.Unix(1, 0)
	for _, c := range []struct {
		job  dashboardclient.Job
		want int
		own  bool
	}{
		{dashboardclient.Job{Status: dashboardclient.JobSucceeded}, 0, true},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, DriverExitCode: code(3)}, 3, true},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, DriverExitCode: code(-9)}, 137, true},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, StartTime: start, Message: "Job entrypoint command failed with exit code 4, last"}, 4, true},
		{dashboardclient.Job{Status: dashboardclient.JobStopped, DriverExitCode: code(-15)}, runstate.CodeInterrupted, false},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, ErrorType: "RUNTIME_ENV_SETUP_FAILURE", StartTime: start}, runstate.CodeStartFailed, false},
		{dashboardclient.Job{Status: dashboardclient.JobFailed, ErrorType: "JOB_SUPERVISOR_ACTOR_DIED", StartTime: start}, runstate.CodeLost, false},
	} {
		if got, own := app.JobCode(&c.job); got != c.want || own != c.own {
			t.Errorf("%+v: got %d, %v", c.job, got, own)
		}
	}
}

// TestSignalsAreTold: the signal that ended a driver is named, and the usual reason of SIGKILL.
func TestSignalsAreTold(t *testing.T) {
	for _, c := range []struct {
		code int
		want string
	}{
		{-15, "job x failed: the driver was ended by SIGTERM, exit code 143\n"},
		{-9, "job x failed: the driver was ended by SIGKILL, exit code 137\nIf nobody killed the driver: the kernel ends a process with SIGKILL when memory runs out, which `dmesg` on its node shows. Use less memory, or nodes with more\n"},
		{3, ""},
	} {
		a, _, stderr := apptest.New()
		err := app.JobOutcome(a, &dashboardclient.Job{SubmissionID: "x", Status: dashboardclient.JobFailed, DriverExitCode: &c.code}, "")
		if err == nil || stderr.String() != c.want {
			t.Errorf("%d: %v, %q", c.code, err, stderr)
		}
	}
}
