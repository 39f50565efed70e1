package keeper

import "time"

// Phases of a cluster.
const (
	PhaseQueued       = "Queued"
	PhaseProvisioning = "Provisioning"
	PhaseStarting     = "Starting"
	PhaseReady        = "Ready"
	PhaseDraining     = "Draining"
	PhaseGone         = "Gone"
	PhaseLost         = "Lost"
)

// States of a job. All but JobWaiting are Ray's.
const (
	JobWaiting   = "WAITING" // not submitted yet
	JobPending   = "PENDING"
	JobRunning   = "RUNNING"
	JobSucceeded = "SUCCEEDED"
	JobFailed    = "FAILED"
	JobStopped   = "STOPPED"
)

// Whose exit code an Exit has.
const (
	OriginDriver = "driver"
	OriginRayctl = "rayctl"
)

// Causes of the end of a cluster.
const (
	CauseSucceeded      = "succeeded"
	CauseDriverFailed   = "driver-failed"
	CauseDriverSignaled = "driver-signaled"
	CauseInterrupted    = "interrupted"
	CauseDown           = "down"
	CauseIdle           = "idle"
	CauseMax            = "max"
	CauseTotal          = "total"
	CauseQueue          = "queue"
	CauseDisconnected   = "disconnected"
	CauseAbandoned      = "abandoned"
	CauseStartFailed    = "start-failed"
	CauseLost           = "lost"
	CausePreempted      = "preempted"
	CauseTimeLimit      = "time-limit"
	CausePackageFailed  = "package-failed"
	CauseSubmitFailed   = "submit-failed"
)

// State is what the keeper knows: of a living cluster, or (with Exit and Log) of one that ended.
type State struct {
	Revision int64  `json:"revision"`
	Name     string `json:"name"`
	Launcher string `json:"launcher"`
	SpecHash string `json:"specHash"`
	Attempt  int    `json:"attempt"`

	Phase  string    `json:"phase"`
	Reason Reason    `json:"reason"`
	Since  time.Time `json:"since"` // of the phase

	Groups []GroupState `json:"groups"`
	Head   Head         `json:"head"`
	Keeper Process      `json:"keeper"`
	Nodes  []Node       `json:"nodes"`
	Job    *JobState    `json:"job"` // nil: orders without a job

	Committed       bool       `json:"committed"`
	LastRenewal     *time.Time `json:"lastRenewal"`
	EndOnDisconnect float64    `json:"endOnDisconnect"` // seconds, 0 is off
	Deadlines       Deadlines  `json:"deadlines"`
	// MissingPackages are files of the commit that were lost with the pod of the keeper before: who has them puts them again.
	MissingPackages []string `json:"missingPackages,omitempty"`

	Timeline []Event   `json:"timeline"`
	Attempts []Attempt `json:"attempts"`

	Exit *Exit `json:"exit,omitempty"` // final state only
	Log  *Log  `json:"log,omitempty"`  // final state only
}

// Reason says why a cluster is where it is.
type Reason struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// GroupState counts the nodes of a group that are ALIVE.
type GroupState struct {
	Name   string `json:"name"`
	Ready  int    `json:"ready"`
	Wanted int    `json:"wanted"`
	// GPUs of one node.
	GPUs float64 `json:"gpus"`
}

// Head says how to reach the cluster; fields are empty until known.
type Head struct {
	Address    string `json:"address"`   // host:port of the GCS
	Dashboard  string `json:"dashboard"` // URL
	ClientPort int    `json:"clientPort"`
	Session    string `json:"session"`
	NodeID     string `json:"nodeId"`
	RayVersion string `json:"rayVersion"`
	Token      bool   `json:"token"` // Ray's token authentication is on
}

// Process is the keeper itself.
type Process struct {
	URL       string `json:"url"`
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	StartTime int64  `json:"startTime"` // field 22 of /proc/PID/stat: clock ticks since boot; 0 where there is no /proc
}

// Node is one Ray node.
type Node struct {
	Name    string `json:"name"` // <group>-<i>
	Group   string `json:"group"`
	PID     int    `json:"pid"` // of its supervisor, where the keeper started it
	NodeID  string `json:"nodeId"`
	State   string `json:"state"` // STARTING, ALIVE or DEAD
	Host    string `json:"host"`
	Message string `json:"message"`
}

// JobState is Ray's view of the current attempt's driver.
type JobState struct {
	SubmissionID string     `json:"submissionId"`
	Entrypoint   string     `json:"entrypoint"` // exactly as submitted
	State        string     `json:"state"`
	DriverNodeID string     `json:"driverNodeId"`
	DriverPID    int        `json:"driverPid"`
	StartTime    *time.Time `json:"startTime"`
	EndTime      *time.Time `json:"endTime"`
	ExitCode     *int       `json:"exitCode"` // shell convention: 128+n for a signal
	Signal       *int       `json:"signal"`
	Message      string     `json:"message"`
	LogFile      string     `json:"logFile"` // name for Ray's /api/v0/logs
}

// Terminal says whether Ray will not change the job's state any more.
func (j *JobState) Terminal() bool {
	if j == nil {
		return false
	}
	return j.State == JobSucceeded || j.State == JobFailed || j.State == JobStopped
}

// Deadlines are the moments at which limits end the cluster, as far as they are known.
type Deadlines struct {
	Max   *time.Time `json:"max"`
	Idle  *time.Time `json:"idle"`
	Total *time.Time `json:"total"`
}

// Event is an entry of the timeline.
type Event struct {
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Event   string    `json:"event"` // phase, job, restart, node or head
	To      string    `json:"to"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Attempt is one submission of the driver that ended.
type Attempt struct {
	Attempt      int        `json:"attempt"`
	SubmissionID string     `json:"submissionId"`
	Start        *time.Time `json:"start"`
	End          *time.Time `json:"end"`
	Cause        string     `json:"cause"`
	ExitCode     *int       `json:"exitCode"`
	Message      string     `json:"message"`
}

// Exit says how the cluster ended.
type Exit struct {
	Origin    string `json:"origin"` // whose code it is
	Cause     string `json:"cause"`
	Code      int    `json:"code"` // exit code for rayctl run
	Signal    *int   `json:"signal"`
	Message   string `json:"message"` // one sentence
	Retryable bool   `json:"retryable"`
	By        string `json:"by,omitempty"` // user@host who asked for the end
}

// Log describes the keeper's copy of the driver's output.
type Log struct {
	Bytes   int64      `json:"bytes"`
	Missing [][2]int64 `json:"missing"` // ranges [from, to) of the driver's output that the copy does not have; to -1: unknown
}
