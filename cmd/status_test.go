package cmd

import (
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
)

// TestStatusOfWhatRuns: status shows the applications of Serve with their URLs, and a job that waits for resources, as they are at that moment.
func TestStatusOfWhatRuns(t *testing.T) {
	waiting := map[string]any{"type": "SUBMISSION", "submission_id": "raysubmit_1", "status": "PENDING", "entrypoint": "python a.py", "start_time": apptest.Begin.UnixMilli()}
	open := func(ray *apptest.Ray) func() launcher.Launcher {
		return func() launcher.Launcher {
			return (&apptest.Launcher{Ray: &apptest.Ray{Jobs: ray.Jobs, WithoutServe: ray.WithoutServe}}).With("dev", "old", "queued")
		}
	}
	files := map[string]string{"s.yaml": "applications: [{name: chat, route_prefix: /chat, import_path: 'm:app'}]"}
	apptest.Run(t, NewRoot, open(&apptest.Ray{Jobs: []map[string]any{waiting}}), []apptest.Line{
		{Before: "serve apply -f s.yaml dev", Args: "status dev", Files: files, Out: "job         raysubmit_1 PENDING python a.py\nserve       chat RUNNING http://127.0.0.1:8123/chat\n", Err: "local cluster dev\n"},
		{Before: "serve apply -f s.yaml dev", Args: "status dev -o json", Files: files, Out: `"url": "http://127.0.0.1:8123/chat"`, JSON: true},
		{Args: "status dev -o json", Out: `"state": "PENDING"`, JSON: true},
		{Args: "status dev -o yaml", Out: "state: PENDING"},
		{Args: "status queued", Out: "Queued"},
		{Args: "status old", Out: "Ended"},
	})
	apptest.Run(t, NewRoot, open(&apptest.Ray{WithoutServe: true, Jobs: []map[string]any{waiting}}), []apptest.Line{
		{Args: "status dev", Out: "raysubmit_1 PENDING python a.py\n"},
	})
}
