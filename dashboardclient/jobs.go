package dashboardclient

import (
	"context"
	"time"
)

// JobStatus is the state of a job, in Ray's words.
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

// Job is what the dashboard knows of one job.
type Job struct {
	// Type is SUBMISSION for a job submitted through the job API, DRIVER for a program that called ray.init itself.
	Type string `json:"type"`
	// SubmissionID is empty for a DRIVER.
	SubmissionID string `json:"submission_id,omitempty"`
	// JobID is Ray core's id, known once the driver has connected.
	JobID string `json:"job_id,omitempty"`
	// Status is the job's state.
	Status JobStatus `json:"status"`
	// Entrypoint is the shell command.
	Entrypoint string `json:"entrypoint"`
	// Message is Ray's explanation of the status.
	Message string `json:"message,omitempty"`
	// ErrorType names Ray's internal cause of a failure; empty if the driver failed by itself.
	ErrorType string `json:"error_type,omitempty"`
	// StartTime is zero before the driver was started.
	StartTime time.Time `json:"start_time,omitzero"`
	// EndTime is zero before the job was terminal.
	EndTime time.Time `json:"end_time,omitzero"`
	// Metadata is what was given at submission, and rayctl's own keys (rayctl.*).
	Metadata map[string]string `json:"metadata,omitempty"`
	// RuntimeEnv is the runtime environment as submitted. Anyone who may ask for the job sees it.
	RuntimeEnv map[string]any `json:"runtime_env,omitempty"`
	// DriverNodeID is the node the driver runs on, known once RUNNING.
	DriverNodeID string `json:"driver_node_id,omitempty"`
	// DriverExitCode is the exit code of the entrypoint's shell; nil before the end, when Ray killed the driver, and in
	// versions that do not report it (2.9.3).
	DriverExitCode *int `json:"driver_exit_code,omitempty"`
}

// SubmitRequest describes a job. Entrypoint is required.
type SubmitRequest struct {
	// Entrypoint is a shell command, run by sh on the head's node (or where the entrypoint resources are).
	Entrypoint string
	// SubmissionID names the job. Empty: one is made ("raysubmit_" and 16 characters).
	SubmissionID string
	// Nonce identifies this submission across repetitions: a job that exists already under SubmissionID with the same nonce is
	// taken for this one. Empty: a random one, so that only this call's own retries are recognised.
	Nonce string
	// RuntimeEnv is Ray's runtime environment: working_dir and py_modules as URIs, env_vars, pip and so on. No secrets: Ray shows and logs it.
	RuntimeEnv map[string]any
	// Metadata is shown with the job.
	Metadata map[string]string
	// EntrypointCPUs, EntrypointGPUs, EntrypointMemory (bytes) and EntrypointResources are reserved for the driver process. Any of
	// them may place the driver on another node than the head.
	EntrypointCPUs, EntrypointGPUs float64
	EntrypointMemory               int64
	EntrypointResources            map[string]float64
}

// MetadataNonce is the metadata key that carries SubmitRequest.Nonce.
const MetadataNonce = "rayctl.nonce"

// SubmitJob submits a job and returns its submission id. Whatever happens to the answer, the driver runs at most once: a POST
// that was cut or answered with an error is resolved by asking for the job and comparing the nonce. An id that belongs to
// another job gives ErrConflict.
func (c *Client) SubmitJob(ctx context.Context, req SubmitRequest) (string, error) { panic("later") }

// GetJob returns the job with this submission id (or Ray job id), or ErrNotFound.
func (c *Client) GetJob(ctx context.Context, id string) (*Job, error) { panic("later") }

// ListJobs returns all jobs of the cluster, the newest first.
func (c *Client) ListJobs(ctx context.Context) ([]Job, error) { panic("later") }

// StopJob asks Ray to stop the job: SIGTERM, and SIGKILL after RAY_JOB_STOP_WAIT_TIME_S (3 s by default) of the node. It returns at once;
// false means that the job had ended before.
func (c *Client) StopJob(ctx context.Context, id string) (bool, error) { panic("later") }

// DeleteJob removes a terminal job from the cluster's list. A job that has not ended gives an APIError.
func (c *Client) DeleteJob(ctx context.Context, id string) error { panic("later") }

// WaitJob returns the job once it is terminal. It survives lost connections until ctx ends.
func (c *Client) WaitJob(ctx context.Context, id string) (*Job, error) { panic("later") }
