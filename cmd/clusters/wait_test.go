package clusters

import (
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestWaitForJob: wait with a job of a cluster.
func TestWaitForJob(t *testing.T) {
	with := func() launcher.Launcher {
		ray := &apptest.Ray{Code: 4}
		ray.Jobs = append(ray.Jobs, ray.Job("raysubmit_1", "python a.py"), ray.Job("mine", "true"))
		return (&apptest.Launcher{Ray: ray}).With("dev", "old")
	}
	apptest.Run(t, verbs, with, []apptest.Line{
		{Args: "wait dev mine", Code: 4, Err: "job mine is FAILED\n"},
		{Args: "wait raysubmit_1", Code: 4, Err: "local cluster dev (the only one)\nwaiting for the end of raysubmit_1\n"},
		{Args: "wait dev mine -o json", Code: 4, Out: `"driver_exit_code": 4`, JSON: true},
		{Args: "wait dev mine -q -o name", Code: 4, Out: "mine\n"},
		{Args: "wait dev nosuch", Code: runstate.CodeSpec, Err: "nosuch"},
		{Args: "wait old mine", Code: runstate.CodeSpec, Err: "cluster old has ended, and its record has no job mine"},
	})
}

// TestWaitHints: wait names the flag for the module that a failed driver missed, of a job that ends and of a run that has ended.
func TestWaitHints(t *testing.T) {
	const missed = "Traceback (most recent call last):\n  File \"/env/site-packages/ray/data/a.py\", line 1, in a\nModuleNotFoundError: No module named 'pandas'\n"
	with := func() launcher.Launcher {
		ray := &apptest.Ray{Code: 1, Output: missed}
		ray.Jobs = append(ray.Jobs, ray.Job("mine", "true"))
		return (&apptest.Launcher{Ray: ray, Output: missed, Code: 1}).With("dev", "old")
	}
	apptest.Run(t, verbs, with, []apptest.Line{
		{Args: "wait dev mine", Code: 1, Err: "job mine is FAILED\n"},
		{Args: "wait dev mine", Code: 1, Err: "`--pip 'ray[data]'` installs what that part of Ray needs"},
		{Args: "wait old", Code: 1, Err: "Python has no module pandas: `--pip 'ray[data]'`"},
	})
}
