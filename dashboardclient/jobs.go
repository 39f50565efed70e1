package dashboardclient

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rayctl/rayctl/launcher/sleep"
)

// JobStatus is the state of a job, with Ray's names.
type JobStatus string

// States of a job. The last three are terminal.
const (
	JobPending   JobStatus = "PENDING"
	JobRunning   JobStatus = "RUNNING"
	JobSucceeded JobStatus = "SUCCEEDED"
	JobFailed    JobStatus = "FAILED"
	JobStopped   JobStatus = "STOPPED"
)

// Terminal reports whether the job has ended.
func (s JobStatus) Terminal() bool {
	return s == JobSucceeded || s == JobFailed || s == JobStopped
}

// Job is the dashboard's record of one job.
type Job struct {
	// Type is SUBMISSION for a job submitted through the job API, DRIVER for a program that called ray.init itself.
	Type string `json:"type"`
	// SubmissionID is empty for a DRIVER.
	SubmissionID string `json:"submission_id,omitempty"`
	// JobID is Ray core's id, set once the driver has connected.
	JobID string `json:"job_id,omitempty"`
	// Status is the job's state.
	Status JobStatus `json:"status"`
	// Entrypoint is the shell command.
	Entrypoint string `json:"entrypoint"`
	// Message is Ray's explanation of the status.
	Message string `json:"message,omitempty"`
	// ErrorType names Ray's internal cause of a failure; empty if the driver failed by itself.
	ErrorType string `json:"error_type,omitempty"`
	// StartTime is when the job was submitted.
	StartTime time.Time `json:"start_time,omitzero"`
	// EndTime is zero before the job was terminal.
	EndTime time.Time `json:"end_time,omitzero"`
	// Metadata is the metadata from the submission, and rayctl's own keys (rayctl.*).
	Metadata map[string]string `json:"metadata,omitempty"`
	// RuntimeEnv is the runtime environment as submitted. Everybody with access to the job sees it.
	RuntimeEnv map[string]any `json:"runtime_env,omitempty"`
	// DriverNodeID is the node of the driver, set once RUNNING.
	DriverNodeID string `json:"driver_node_id,omitempty"`
	// DriverExitCode is the exit code of the entrypoint's shell, negative for a signal; nil before the end, when
	// Ray ended the job, and in Ray 2.9.3 for a job that succeeded.
	DriverExitCode *int `json:"driver_exit_code,omitempty"`
}

// UnmarshalJSON decodes the dashboard's form, with times in milliseconds since 1970.
func (j *Job) UnmarshalJSON(data []byte) error {
	type plain Job // without this method
	wire := struct {
		*plain
		StartTime int64 `json:"start_time"`
		EndTime   int64 `json:"end_time"`
	}{plain: (*plain)(j)}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	j.StartTime, j.EndTime = millis(wire.StartTime), millis(wire.EndTime)
	return nil
}

// millis converts Ray's times. 0 means not yet.
func millis(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// WaitsFor is what a job that is PENDING waits for, in words; "" of any other. Ray does not say whether it is the resources or the environment. The keeper
// (keeper/rayctl_keeper/state/reserves.py) writes the same of what was submitted to a cluster.
func (j *Job) WaitsFor() string {
	reserves := strings.Join(strings.Fields(j.Metadata[MetadataReserves]), " ") // anybody's
	switch {
	case j.Status != JobPending:
		return ""
	case reserves != "":
		return "a node with " + reserves + " free, or its environment"
	case strings.Contains(j.Message, "waiting for resources"): // Ray's own words, of a job that another tool submitted
		return "a node with what it reserves free, or its environment"
	}
	return "its environment, with its packages and files"
}

func jobPath(id string, more ...string) []string {
	return append([]string{"api", "jobs", id}, more...)
}

// GetJob returns the job with this submission id (or Ray job id), or ErrNotFound.
func (c *Client) GetJob(ctx context.Context, id string) (*Job, error) {
	return c.getJob(ctx, request{}, id)
}

func (c *Client) getJob(ctx context.Context, r request, id string) (*Job, error) {
	r.doing, r.path = cmp.Or(r.doing, "get job "+id), jobPath(id)
	job := new(Job)
	if err := c.call(ctx, r, job); err != nil {
		return nil, err
	}
	return job, nil
}

// lookLimit bounds a request that is repeated anyway: a hanging connection is replaced by a new one.
const lookLimit = 15 * time.Second

// ListJobs returns all jobs of the cluster, the newest first.
func (c *Client) ListJobs(ctx context.Context) ([]Job, error) {
	var jobs []Job
	if err := c.call(ctx, request{doing: "list jobs", path: []string{"api", "jobs/"}}, &jobs); err != nil {
		return nil, err
	}
	slices.SortStableFunc(jobs, func(a, b Job) int {
		return cmp.Or(b.StartTime.Compare(a.StartTime), cmp.Compare(a.SubmissionID, b.SubmissionID))
	})
	return jobs, nil
}

// StopJob asks Ray to stop the job: SIGTERM, and SIGKILL after RAY_JOB_STOP_WAIT_TIME_S (3 s by default) of the node. It returns at once;
// false means that the job had ended before. Ray itself answers true while the job's supervisor exists, which may be seconds longer.
func (c *Client) StopJob(ctx context.Context, id string) (bool, error) {
	if job, err := c.GetJob(ctx, id); err != nil || job.Status.Terminal() {
		return false, err
	}
	var answer struct {
		Stopped bool `json:"stopped"`
	}
	err := c.call(ctx, request{doing: "stop job " + id, method: http.MethodPost, path: jobPath(id, "stop")}, &answer)
	return answer.Stopped, err
}

// Ray looks after a job once a second, and a job that it finds deleted then is written into its list again, as FAILED with an "Entrypoint not found."
// (Ray 2.60, JobManager._monitor_job_internal: the supervisor has ended, and the job has no status that is terminal).
const (
	watchedByRay = 15 * time.Second // after the end of a job, on a busy machine
	writtenAgain = 16               // answers, four each second: a Ray that answers late also writes late
)

// DeleteJob removes a terminal job from the cluster's list. For any other job it returns an APIError. For a job that has ended just now it takes 4
// seconds longer, on a busy machine up to 15: Ray may write such a job again.
func (c *Client) DeleteJob(ctx context.Context, id string) error {
	job, err := c.getJob(ctx, request{doing: "delete job " + id}, id)
	if err != nil {
		return err
	}
	if err := c.deleteJob(ctx, id); err != nil || time.Since(job.EndTime) > watchedByRay {
		return err
	}
	looking, cancel := context.WithTimeout(ctx, watchedByRay)
	defer cancel()
	for n := 0; n < writtenAgain && sleep.For(looking, 250*time.Millisecond); n++ {
		switch again, err := c.getJob(looking, request{once: true, limit: lookLimit}, id); {
		case err != nil: // not found, as a rule; the job is deleted in any case
		case again.Status == JobFailed && again.StartTime.IsZero(): // what Ray writes; a job that was submitted since has a start
			return c.deleteJob(ctx, id)
		}
	}
	return nil
}

func (c *Client) deleteJob(ctx context.Context, id string) error {
	return c.call(ctx, request{doing: "delete job " + id, method: http.MethodDelete, path: jobPath(id)}, nil)
}

// WaitJob returns the job once it is terminal. It survives lost connections until ctx ends.
func (c *Client) WaitJob(ctx context.Context, id string) (*Job, error) {
	return c.awaitJob(ctx, id, JobStatus.Terminal)
}

// AwaitStart waits until the job is no longer PENDING.
func (c *Client) AwaitStart(ctx context.Context, id string) error {
	_, err := c.awaitJob(ctx, id, func(s JobStatus) bool { return s != JobPending })
	return err
}

func (c *Client) awaitJob(ctx context.Context, id string, until func(JobStatus) bool) (*Job, error) {
	var job *Job
	err := pollUntil(ctx, jobRhythm, func() (bool, error) {
		got, err := c.getJob(ctx, request{once: true, limit: lookLimit}, id)
		if errors.Is(err, ErrUnreachable) {
			return false, nil
		}
		if err == nil {
			job = got
		}
		return err == nil && until(got.Status), err
	})
	return job, err
}
