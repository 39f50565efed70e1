package jobs

import (
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestJobsOfAnEndedCluster: what was submitted to a cluster is listed and shown after the cluster's end.
func TestJobsOfAnEndedCluster(t *testing.T) {
	const records = `[{"type": "SUBMISSION", "submission_id": "first", "status": "SUCCEEDED", "entrypoint": "python a.py", "start_time": 1000, "end_time": 2000, "driver_exit_code": 0},
		{"type": "SUBMISSION", "submission_id": "failed", "status": "FAILED", "entrypoint": "python b.py", "start_time": 3000, "end_time": 5000, "driver_exit_code": 7},
		{"type": "SUBMISSION", "submission_id": "last", "status": "RUNNING", "entrypoint": "true", "start_time": 9000}]`
	apptest.Run(t, verbs, func() launcher.Launcher {
		return (&apptest.Launcher{Output: "saved\n", Kept: map[string]string{
			"submissions.json": records, "jobs/first.log": "2026-11-21 12:21:04,591\tINFO job_manager.py:581 -- Runtime env is setting up.\nRunning entrypoint for job first: python a.py\none\ntwo\n",
			"jobs/failed.end": "the end\n", "jobs/aside.log": "of a run's cluster\n",
		}}).With("old")
	}, []apptest.Line{
		{Args: "jobs old", Out: "failed   FAILED      1970-01-01T00:00:03Z   2.0 s"},
		{Args: "jobs old last", Out: "its cluster ended while it ran"},
		{Args: "jobs old -o name", Out: "last\nfailed\nfirst\n"},
		{Args: "jobs old failed -o json", Out: `"driver_exit_code": 7`, JSON: true},
		{Args: "jobs old nosuch", Code: runstate.CodeSpec, Err: "cluster old has ended, and its record has no job nosuch: `rayctl jobs old` lists those that it has"},
		{Args: "logs old first", Out: "one\ntwo\n"},
		{Args: "logs old first --tail 1", Out: "two\n"},
		{Args: "logs old failed", Out: "the end\n", Err: "Only the end of the output of job failed is kept"},
		{Args: "logs old failed -f", Code: 7, Out: "the end\n", Err: "Only the end"},
		{Args: "logs old aside", Out: "of a run's cluster\n"},
		{Args: "logs old last", Code: runstate.CodeSpec, Err: "cluster old has ended, and the output of job last is not kept"},
		{Args: "logs old ../first", Code: runstate.CodeSpec, Err: "is not kept"},
		{Args: "logs old", Out: "saved\n"},
	})
}
