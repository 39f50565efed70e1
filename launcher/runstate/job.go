package runstate

import "time"

// JobState is Ray's own status of a submitted job (ray.job_submission.JobStatus), WAITING before it was submitted, and NOT_SUBMITTED
// if it never was.
type JobState string

// The states of a job.
const (
	JobWaiting   JobState = "WAITING"
	JobPending   JobState = "PENDING"
	JobRunning   JobState = "RUNNING"
	JobSucceeded JobState = "SUCCEEDED"
	JobFailed    JobState = "FAILED"
	JobStopped   JobState = "STOPPED"
	// JobNotSubmitted is of a cluster that has ended before its job was submitted.
	JobNotSubmitted JobState = "NOT_SUBMITTED"
)

// Terminal reports whether Ray will not change the state any more.
func (s JobState) Terminal() bool {
	return s == JobSucceeded || s == JobFailed || s == JobStopped || s == JobNotSubmitted
}

// Job is Ray's view of the current attempt's driver.
type Job struct {
	SubmissionID string     `json:"submissionId"`
	Entrypoint   string     `json:"entrypoint"` // exactly as submitted
	State        JobState   `json:"state"`
	DriverNodeID string     `json:"driverNodeId"`
	DriverPID    int        `json:"driverPid"`
	Start        *time.Time `json:"startTime"`
	End          *time.Time `json:"endTime"`
	ExitCode     *int       `json:"exitCode"` // shell convention: 128+n for a signal
	Signal       *int       `json:"signal"`
	Message      string     `json:"message"`
	LogFile      string     `json:"logFile"` // name for Ray's /api/v0/logs
	// OutputDir is the driver's RAYCTL_OUTPUT_DIR. Of an ended run it is empty if nothing was written there, or if it went with the nodes.
	OutputDir string `json:"outputDir,omitempty"`
}

// Submission is a job that was submitted to a cluster.
type Submission struct {
	SubmissionID string     `json:"submissionId"`
	State        JobState   `json:"state"` // JobPending or JobRunning
	Entrypoint   string     `json:"entrypoint"`
	Start        *time.Time `json:"startTime"`
}

// Terminal reports whether Ray will not change the job's state any more.
func (j *Job) Terminal() bool { return j != nil && j.State.Terminal() }
