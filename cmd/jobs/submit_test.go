package jobs

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// TestCwd: every part of the entrypoint runs in job.cwd, and none does if it cannot be entered.
func TestCwd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "-it's $(here)")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	sh := func(cwd string) (string, error) {
		r := submitRequest(&spec.Job{Entrypoint: "pwd & wait; pwd", Cwd: cwd}, &launcher.Packages{})
		out, err := exec.Command("sh", "-c", r.Entrypoint).Output()
		return string(out), err
	}
	if out, err := sh(dir); err != nil || out != dir+"\n"+dir+"\n" {
		t.Errorf("%v, %q", err, out)
	}
	if out, err := sh(dir + "/nosuch"); err == nil || out != "" {
		t.Errorf("%v, %q", err, out)
	}
}

func TestJobExitCode(t *testing.T) {
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
		if got, own := jobExitCode(&c.job); got != c.want || own != c.own {
			t.Errorf("%+v: got %d, %v", c.job, got, own)
		}
	}
}

// TestErrorLine: as the keeper's error_line, of the messages of Ray, pip and uv about a runtime environment.
func TestErrorLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"runtime_env setup failed: Failed to set up runtime environment.\n":                                                           "runtime_env setup failed: Failed to set up runtime environment.",
		"Traceback (most recent call last):\n  File \"x\"\nFileNotFoundError: [Errno 2] No such file or directory: '/r.txt'\n\n---\n": "FileNotFoundError: [Errno 2] No such file or directory: '/r.txt'",
		"RuntimeError: Failed to install pip packages\nERROR: No matching distribution found for nosuch\nlogs end":                    "ERROR: No matching distribution found for nosuch",
		"details.\nerror: Couldn't parse requirement\n  cause: Expected one of":                                                       "error: Couldn't parse requirement",
	} {
		if got := errorLine(text); got != want {
			t.Errorf("%q: %q", text, got)
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
		{-9, "job x failed: the driver was ended by SIGKILL, exit code 137\nIf nobody killed it: the kernel ends a process with SIGKILL when memory runs out, which `dmesg` on its node shows. Use less memory, or nodes with more\n"},
		{3, ""},
	} {
		a, _, stderr := apptest.New()
		err := jobOutcome(a, &followed{Job: &dashboardclient.Job{SubmissionID: "x", Status: dashboardclient.JobFailed, DriverExitCode: &c.code}})
		if err == nil || stderr.String() != c.want {
			t.Errorf("%d: %v, %q", c.code, err, stderr)
		}
	}
}
