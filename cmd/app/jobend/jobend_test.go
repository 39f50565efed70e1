package jobend

import (
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher/runstate"
)

func TestCode(t *testing.T) {
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
		if got, own := Code(&c.job); got != c.want || own != c.own {
			t.Errorf("%+v: got %d, %v", c.job, got, own)
		}
	}
}
