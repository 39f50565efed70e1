package apptest

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
)

// Ray answers as the dashboard of Ray 2.60 does, as far as the verbs ask: the job API with a job that ends at once, its log, the nodes, and Serve with
// applications that run at once; and as the keeper does when its limits are moved (docs/keeper.md).
type Ray struct {
	// Code is the exit code of each driver, Output what it prints.
	Code   int
	Output string
	// WithoutServe: Ray was installed without it.
	WithoutServe bool
	// Killed is the job whose driver did not end at SIGTERM.
	Killed string
	// Jobs are the jobs of the job API; a submitted job is appended.
	Jobs []map[string]any

	mutex        sync.Mutex
	calls        []string // see Line.Calls
	applications map[string]any
	http         map[string]any // where Serve listens, while it runs
}

// Job is a job that has ended as its driver did, in the form of the job API.
func (r *Ray) Job(id, entrypoint string) map[string]any {
	status := "SUCCEEDED"
	if r.Code != 0 {
		status = "FAILED"
	}
	return map[string]any{
		"type": "SUBMISSION", "submission_id": id, "status": status, "entrypoint": entrypoint, "driver_node_id": "n1", "driver_exit_code": r.Code,
		"start_time": Begin.UnixMilli(), "end_time": Begin.UnixMilli() + 2000, "message": "",
	}
}

// called returns the calls that changed something.
func (r *Ray) called() []string {
	if r == nil {
		return nil
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.Clone(r.calls)
}

func (r *Ray) find(id string) map[string]any {
	for _, j := range r.Jobs {
		if j["submission_id"] == id {
			return j
		}
	}
	return nil
}

// answers registers what a request gets: a document, a text, or (nil) that there is no such job.
type answers func(pattern string, do func(q *http.Request) any)

func (r *Ray) handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(q *http.Request) any) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, q *http.Request) {
			r.mutex.Lock()
			defer r.mutex.Unlock()
			switch answer := do(q).(type) {
			case nil:
				http.Error(w, "Job "+q.PathValue("id")+" does not exist", http.StatusNotFound)
			case error:
				http.Error(w, answer.Error(), http.StatusNotImplemented)
			case string:
				_, _ = io.WriteString(w, answer)
			default:
				_ = json.NewEncoder(w).Encode(answer)
			}
		})
	}
	handle("GET /api/version", func(*http.Request) any { return map[string]string{"version": "4", "ray_version": "2.60.0"} })
	r.jobAPI(handle)
	r.stateAPI(handle)
	r.serveAPI(handle)
	mux.HandleFunc("POST /v1/extend", extend)
	mux.HandleFunc("GET /v1/port", choosePort)
	return mux
}

func (r *Ray) jobAPI(handle answers) {
	handle("GET /api/jobs/{$}", func(*http.Request) any { return append([]map[string]any{}, r.Jobs...) })
	handle("POST /api/jobs/{$}", func(q *http.Request) any {
		var request map[string]any
		_ = json.NewDecoder(q.Body).Decode(&request)
		id, _ := request["submission_id"].(string)
		entrypoint, _ := request["entrypoint"].(string)
		j := r.Job(id, entrypoint)
		j["metadata"], j["runtime_env"] = request["metadata"], request["runtime_env"]
		r.Jobs = append(r.Jobs, j)
		return map[string]string{"submission_id": id, "job_id": id}
	})
	handle("DELETE /api/jobs/{id}", r.deleteJob)
	handle("POST /api/jobs/{id}/stop", func(q *http.Request) any {
		j := r.find(q.PathValue("id"))
		if j == nil {
			return nil
		}
		r.calls = append(r.calls, "stop "+q.PathValue("id"))
		if j["status"] == "RUNNING" {
			j["status"] = "STOPPED"
		}
		return map[string]bool{"stopped": true}
	})
	handle("GET /api/jobs/{id}", func(q *http.Request) any {
		if j := r.find(q.PathValue("id")); j != nil {
			return j
		}
		return nil
	})
}

func (r *Ray) deleteJob(q *http.Request) any {
	if r.find(q.PathValue("id")) == nil {
		return nil
	}
	r.calls = append(r.calls, "delete "+q.PathValue("id"))
	r.Jobs = slices.DeleteFunc(r.Jobs, func(other map[string]any) bool { return other["submission_id"] == q.PathValue("id") })
	return map[string]bool{"deleted": true}
}

func (r *Ray) stateAPI(handle answers) {
	file := func(q *http.Request) any {
		if strings.HasPrefix(q.URL.Query().Get("filename"), "job-driver-") {
			return r.Output
		}
		if strings.HasPrefix(q.URL.Query().Get("filename"), "worker-w1-") {
			return ":job_id:01000000\n:actor_name:ServeReplica:chat:D\nERROR 2026-01-02 03:04:05 chat_D r1 -- logged\nTraceback (most recent call last):\n  File\nValueError: x\nprinted\n"
		}
		if name := "jobs/supervisor-" + r.Killed + ".log"; q.URL.Query().Get("filename") == name {
			return "Attempt to gracefully terminate job " + r.Killed + " through SIGTERM has timed out after 3 seconds. Job is now being force-killed with SIGKILL.\n"
		}
		return "the node's log\n"
	}
	handle("GET /api/v0/logs/file", file)
	handle("GET /api/v0/logs/stream", file)
	handle("GET /api/v0/logs", func(q *http.Request) any {
		if strings.HasPrefix(q.URL.Query().Get("glob"), "worker-w1") {
			return map[string]any{"result": true, "data": map[string]any{"result": map[string][]string{"worker_err": {"worker-w1-1-1.err"}}}}
		}
		return map[string]any{"result": true, "data": map[string]any{"result": map[string][]string{"raylet": {"raylet.out", "raylet.err"}}}}
	})
	handle("GET /api/v0/nodes", func(*http.Request) any {
		return listed(map[string]any{"node_id": "n1", "node_name": "head-0", "node_ip": "127.0.0.1", "state": "ALIVE", "is_head_node": true,
			"resources_total": map[string]float64{"CPU": 8, "GPU": 4, "node:127.0.0.1": 1}})
	})
	handle("GET /api/v0/tasks", func(*http.Request) any {
		return listed(map[string]any{"node_id": "n1", "type": "NORMAL_TASK", "required_resources": map[string]float64{"CPU": 0.5}})
	})
	handle("GET /api/v0/actors", func(*http.Request) any {
		return listed(map[string]any{"node_id": "n1", "required_resources": map[string]float64{"CPU": 1}, "placement_group_id": "g"},
			map[string]any{"node_id": "n1", "ray_namespace": "SUPERVISOR_ACTOR_RAY_NAMESPACE"})
	})
	handle("GET /api/v0/placement_groups", func(*http.Request) any {
		return listed(map[string]any{"bundles": []any{map[string]any{"node_id": "n1", "unit_resources": map[string]float64{"CPU": 2, "GPU": 1}}}})
	})
	handle("GET /nodes", func(*http.Request) any {
		gpu := map[string]any{"utilizationGpu": 50, "memoryUsed": 1024, "memoryTotal": 2048}
		node := map[string]any{"cpu": 37.5, "mem": []float64{16 << 30, 14 << 30, 12.5, 2 << 30}, "gpus": []any{gpu}, "raylet": map[string]any{"nodeId": "n1"}}
		return map[string]any{"data": map[string]any{"summary": []any{node}}}
	})
}

// listed is the state API's answer with these rows.
func listed(rows ...map[string]any) any {
	return map[string]any{"result": true, "data": map[string]any{"result": map[string]any{"result": rows}}}
}

func (r *Ray) serveAPI(handle answers) {
	handle("GET /api/serve/applications/{$}", func(*http.Request) any {
		if r.WithoutServe {
			return errors.New("Serve dependencies are not installed. Please run `pip install \"ray[serve]\"`.") //nolint:staticcheck // Ray's own words
		}
		status := map[string]any{"applications": r.applications}
		if r.http != nil {
			status["http_options"], status["proxy_location"] = r.http, "EveryNode"
			status["controller_info"] = map[string]any{"node_id": "n1", "log_file_path": "/serve/controller_1.log"}
		}
		return status
	})
	handle("DELETE /api/serve/applications/{$}", func(*http.Request) any {
		r.applications, r.http = nil, nil
		r.calls = append(r.calls, "end Serve")
		return ""
	})
	handle("PUT /api/serve/applications/{$}", func(q *http.Request) any {
		var config struct {
			Applications []map[string]any `json:"applications"`
			HTTP         map[string]any   `json:"http_options"`
		}
		_ = json.NewDecoder(q.Body).Decode(&config)
		if r.http == nil { // while Serve runs, it ignores other http_options
			r.http = map[string]any{"host": "0.0.0.0", "port": 8000}
			maps.Copy(r.http, config.HTTP)
		}
		r.applications = map[string]any{}
		for _, a := range config.Applications {
			name, _ := a["name"].(string)
			replica := map[string]any{"replica_id": "r1", "state": "RUNNING", "node_id": "n1", "log_file_path": "/serve/replica_1.log", "worker_id": "w1"}
			status, message := "RUNNING", ""
			if a["import_path"] == "m:nosuch" { // as Ray 2.60 has it
				status, message = "DEPLOY_FAILED", "Deploying app '"+name+"' failed with exception:\nTraceback (most recent call last):\n  File \"x.py\"\nAttributeError: module 'm' has no attribute 'nosuch'\n"
			}
			if a["import_path"] == "m:slow" {
				status = "DEPLOYING"
			}
			r.applications[name] = map[string]any{"status": status, "message": message, "route_prefix": a["route_prefix"], "deployed_app_config": a,
				"deployments": map[string]any{"D": map[string]any{"status": "HEALTHY", "replicas": []any{replica}}}}
		}
		return ""
	})
}

// extend is the keeper's answer to new limits: the moments at which they end the cluster. One with two minutes left is not ended earlier.
func extend(w http.ResponseWriter, q *http.Request) {
	var limits keeper.Extend
	_ = json.NewDecoder(q.Body).Decode(&limits)
	if limits.Later && *limits.Max > 0 && *limits.Max < 120 {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error": "the cluster would then end earlier than at present: lifetime.max leaves it 2m"}`)
		return
	}
	deadlines := map[string]any{}
	if limits.Max != nil && *limits.Max > 0 {
		deadlines["max"] = Begin
	}
	if limits.MaxBy != nil {
		deadlines["max"] = Begin.Add(time.Duration(*limits.MaxBy * float64(time.Second)))
	}
	if limits.Idle != nil && *limits.Idle > 0 {
		deadlines["idle"] = Begin
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"deadlines": deadlines})
}

// choosePort is the keeper's answer about a free port: port 9 is taken, every other one is free, and without a port it chooses 8123.
func choosePort(w http.ResponseWriter, q *http.Request) {
	if q.FormValue("port") == "9" {
		w.WriteHeader(http.StatusConflict)
		_, _ = io.WriteString(w, `{"error": "port 9 is taken"}`)
		return
	}
	port, _ := strconv.Atoi(q.FormValue("port"))
	_ = json.NewEncoder(w).Encode(map[string]int{"port": cmp.Or(port, 8123)})
}
