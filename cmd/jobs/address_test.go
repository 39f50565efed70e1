package jobs

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// TestAddressVariable: the commands on jobs take the dashboard from RAY_API_SERVER_ADDRESS unless the command line names one, and send RAY_JOB_HEADERS.
func TestAddressVariable(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Team") != "hush":
			w.WriteHeader(http.StatusForbidden)
		case strings.HasSuffix(r.URL.Path, "/logs/file"), strings.HasSuffix(r.URL.Path, "/logs"):
			_, _ = w.Write([]byte(`{"logs": "printed\n"}`))
		case r.URL.Path == "/api/jobs/":
			_, _ = w.Write([]byte(`[{"submission_id": "raysubmit_elsewhere", "status": "SUCCEEDED"}]`))
		case r.URL.Path == "/api/jobs/raysubmit_elsewhere":
			_, _ = w.Write([]byte(`{"submission_id": "raysubmit_elsewhere", "status": "SUCCEEDED", "driver_exit_code": 0}`))
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer server.Close()
	t.Setenv("RAY_API_SERVER_ADDRESS", server.URL+"/")
	t.Setenv("RAY_JOB_HEADERS", `{"X-Team": "hush"}`)
	apptest.Run(t, verbs, drivers(0), []apptest.Line{
		{Args: "jobs -o name", Out: "raysubmit_elsewhere\n", Err: "the dashboard of RAY_API_SERVER_ADDRESS\n"},
		{Args: "jobs raysubmit_elsewhere -o name", Out: "raysubmit_elsewhere\n"},
		{Args: "stop raysubmit_elsewhere", Err: "job raysubmit_elsewhere is SUCCEEDED"},
		{Args: "jobs delete raysubmit_1", Code: runstate.CodeSpec, Err: "delete job raysubmit_1: not found"},
		{Args: "jobs dev -o name", Out: "raysubmit_1\n", Err: "local cluster dev"},
		{Args: "jobs -c dev -o name", Out: "raysubmit_1\n"},
		{Args: "logs -c dev", Out: "hello\nworld\n"},
		{Args: "jobs -c dev --verify false", Code: runstate.CodeUsage, Err: "--verify applies to --address and RAY_API_SERVER_ADDRESS only: leave it out"},
		{Args: "jobs --address http://127.0.0.1:1:1", Code: runstate.CodeUsage, Err: `"http://127.0.0.1:1:1" is not the address`},
		{Args: "jobs --verify ''", Code: runstate.CodeUsage, Err: "--verify is empty"},
	})
	t.Setenv("RAY_JOB_HEADERS", `{"X-Team": hush}`)
	apptest.Run(t, verbs, drivers(0), []apptest.Line{{Args: "jobs", Code: runstate.CodeConfig, Err: "rayctl: RAY_JOB_HEADERS is not a JSON object of HTTP headers"}})
	t.Setenv("RAY_API_SERVER_ADDRESS", "localhost:8265")
	apptest.Run(t, verbs, drivers(0), []apptest.Line{{Args: "jobs", Code: runstate.CodeConfig, Err: `RAY_API_SERVER_ADDRESS is "localhost:8265", which is not the address of a dashboard`}})
}
