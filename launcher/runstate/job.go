package runstate

import (
	"strings"
	"time"
)

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
	Reserves     string     `json:"reserves,omitempty"` // what the driver reserves on one node, in words
	LogFile      string     `json:"logFile"`            // name for Ray's /api/v0/logs, of job.prepare while that runs
	// LogBegin is where in the attempt's saved log the driver's begins: before it is what job.prepare printed. AllPrepare: no driver has followed.
	LogBegin int64 `json:"logBegin,omitempty"`
	// Missing is what the saved log of the attempt does not have so far, as Log.Missing: for a keeper that follows another one.
	Missing [][2]int64 `json:"missing,omitempty"`
	// Prepare is job.prepare; nil: the job has none.
	Prepare *Prepare `json:"prepare,omitempty"`
	// OutputDir is the driver's RAYCTL_OUTPUT_DIR. Of an ended run it is empty if nothing was written there, or if it went with the nodes.
	OutputDir string `json:"outputDir,omitempty"`
	// WaitsForFetch: the end waits for a client that copies the output directory, which goes with the nodes.
	WaitsForFetch bool `json:"waitsForFetch,omitempty"`
}

// AllPrepare is the LogBegin of an attempt whose driver has not followed on job.prepare.
const AllPrepare = -1

// Prepare is Ray's view of job.prepare in the current attempt.
type Prepare struct {
	SubmissionID string     `json:"submissionId"` // empty: not submitted; an attempt on a cluster that is prepared needs none
	Entrypoint   string     `json:"entrypoint"`   // exactly as it is submitted
	State        JobState   `json:"state"`
	DriverNodeID string     `json:"driverNodeId"` // of the node that it ran on
	Start        *time.Time `json:"startTime"`
	End          *time.Time `json:"endTime"`
	ExitCode     *int       `json:"exitCode"` // shell convention: 128+n for a signal
	Signal       *int       `json:"signal"`
	Message      string     `json:"message"`
}

// PrepareID is the submission id of job.prepare in the attempt of a driver <name>-<n>.
func PrepareID(driver string) string {
	at := strings.LastIndexByte(driver, '-') + 1
	return driver[:at] + "prepare-" + driver[at:]
}

// Prepares reports whether job.prepare was submitted in this attempt.
func (j *Job) Prepares() bool {
	return j != nil && j.Prepare != nil && j.Prepare.State != JobWaiting
}

// Preparing reports whether it was, and the driver was not yet.
func (j *Job) Preparing() bool { return j.Prepares() && j.State == JobWaiting }

// Submission is a job that was submitted to a cluster.
type Submission struct {
	SubmissionID string     `json:"submissionId"`
	State        JobState   `json:"state"`
	Entrypoint   string     `json:"entrypoint"`
	Start        *time.Time `json:"startTime"`
	WaitsFor     string     `json:"waitsFor,omitempty"` // of one that is PENDING, in words
}

// EndedSubmissions are the jobs that were submitted to a cluster without a job of its own and have ended.
type EndedSubmissions struct {
	Count     int        `json:"count"`
	Succeeded int        `json:"succeeded"`
	Last      Submission `json:"last"`
}

// Terminal reports whether Ray will not change the job's state any more.
func (j *Job) Terminal() bool { return j != nil && j.State.Terminal() }
