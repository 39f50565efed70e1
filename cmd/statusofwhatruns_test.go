package cmd

import (
	"maps"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/dashboardclient"
	"github.com/rayctl/rayctl/launcher"
)

// TestStatusOfWhatRuns: status shows the applications of Serve with their URLs, a job that waits for resources, and how many jobs have ended, as they are at that moment.
func TestStatusOfWhatRuns(t *testing.T) {
	waiting := map[string]any{"type": "SUBMISSION", "submission_id": "raysubmit_1", "status": "PENDING", "entrypoint": "python a.py", "start_time": apptest.Begin.UnixMilli()}
	open := func(ray *apptest.Ray) func() launcher.Launcher {
		return func() launcher.Launcher {
			return (&apptest.Launcher{Ray: &apptest.Ray{Jobs: ray.Jobs, WithoutServe: ray.WithoutServe}}).With("dev", "old", "queued")
		}
	}
	files := map[string]string{"s.yaml": "applications: [{name: chat, route_prefix: /chat, import_path: 'm:app'}]"}
	apptest.Run(t, NewRoot, open(&apptest.Ray{Jobs: []map[string]any{waiting}}), []apptest.Line{
		{Before: "serve apply -f s.yaml dev", Args: "status dev", Files: files, Out: "job         raysubmit_1 PENDING python a.py\nwaits for   its environment, with its packages and files\nserve       chat RUNNING http://127.0.0.1:8123/chat\n", Err: "local cluster dev\n"},
		{Before: "serve apply -f s.yaml dev", Args: "status dev -o json", Files: files, Out: `"url": "http://127.0.0.1:8123/chat"`, JSON: true},
		{Args: "status dev -o json", Out: `"state": "PENDING"`, JSON: true},
		{Args: "status dev -o json", Out: `"waitsFor": "its environment, with its packages and files"`, JSON: true},
		{Args: "status dev -o yaml", Out: "state: PENDING"},
		{Args: "status queued", Out: "Queued"},
		{Args: "status old", Out: "Ended"},
	})
	reserves := maps.Clone(waiting)
	reserves["metadata"] = map[string]string{dashboardclient.MetadataReserves: "2 CPUs, 1 GPU"}
	runs := maps.Clone(reserves)
	runs["status"] = "RUNNING"
	apptest.Run(t, NewRoot, open(&apptest.Ray{Jobs: []map[string]any{reserves}}), []apptest.Line{
		{Args: "status dev", Out: "raysubmit_1 PENDING python a.py\nwaits for   a node with 2 CPUs, 1 GPU free, or its environment\n"},
		{Args: "status dev -o json", Out: `"waitsFor": "a node with 2 CPUs, 1 GPU free, or its environment"`, JSON: true},
	})
	apptest.Run(t, NewRoot, open(&apptest.Ray{Jobs: []map[string]any{runs}}), []apptest.Line{
		{Args: "status dev", Out: "raysubmit_1 RUNNING python a.py\n\n"}, // no row below
	})
	ended := func(id, status string, end int64) map[string]any {
		return map[string]any{"type": "SUBMISSION", "submission_id": id, "status": status, "entrypoint": "python " + id, "start_time": apptest.Begin.UnixMilli(), "end_time": apptest.Begin.UnixMilli() + end}
	}
	counted := []map[string]any{ended("b", "FAILED", 2), ended("a", "SUCCEEDED", 1), ended("dev-drain-1", "STOPPED", 3), waiting, {"type": "DRIVER", "job_id": "01000000", "status": "SUCCEEDED"}}
	apptest.Run(t, NewRoot, open(&apptest.Ray{Jobs: counted}), []apptest.Line{
		{Args: "status dev", Out: "raysubmit_1 PENDING python a.py\nwaits for    its environment, with its packages and files\nended jobs   2 jobs (1 succeeded), the last: python b\n"},
	})
	apptest.Run(t, NewRoot, open(&apptest.Ray{WithoutServe: true, Jobs: []map[string]any{waiting}}), []apptest.Line{
		{Args: "status dev", Out: "raysubmit_1 PENDING python a.py\n"},
	})
}
