package launcher

import "time"

// Phase of a cluster. They follow one another as listed; Lost and the next attempt go back to Queued.
type Phase string

// The phases.
const (
	Queued       Phase = "Queued"       // accepted by the substrate, waiting for resources
	Provisioning Phase = "Provisioning" // the gang is admitted: nodes or pods are being made
	Starting     Phase = "Starting"     // Ray is starting
	Ready        Phase = "Ready"        // every node of the gang is alive in Ray
	Draining     Phase = "Draining"     // the end has begun: driver stopping, result being saved
	Gone         Phase = "Gone"         // nothing is allocated; a record may be left
	Lost         Phase = "Lost"         // the attempt broke (head, node, preemption); another attempt or Gone follows
)

// Ended says whether nothing is allocated any more.
func (p Phase) Ended() bool { return p == Gone }

// Reason is why a cluster is where it is, in the substrate's own words turned into a sentence.
type Reason struct {
	Code    string `json:"code,omitempty"`    // the substrate's: Resources, ErrImagePull, WaitingForNodes
	Message string `json:"message,omitempty"` // one sentence
	Hint    string `json:"hint,omitempty"`    // next step for the user
}

// Status is what is known of one cluster at one moment.
type Status struct {
	Name     string            `json:"name"`
	Launcher string            `json:"launcher"`
	Owner    string            `json:"owner,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Ours     bool              `json:"ours"` // false: a Ray cluster that rayctl did not make
	SpecHash string            `json:"specHash,omitempty"`
	Where    string            `json:"where,omitempty"` // namespace/name, Slurm job id, keeper's pid

	Phase     Phase         `json:"phase"`
	Reason    Reason        `json:"reason"`
	Since     time.Time     `json:"since"`   // of the phase
	Created   time.Time     `json:"created"` // of the cluster
	Attempt   int           `json:"attempt"` // from 1
	Groups    []GroupStatus `json:"groups,omitempty"`
	Nodes     []NodeStatus  `json:"nodes,omitempty"`
	Head      Head          `json:"head"`
	Job       *JobStatus    `json:"job,omitempty"` // nil: a cluster without a job of its own
	Deadlines Deadlines     `json:"deadlines"`
	// EndOnDisconnect is the time in seconds after which the keeper ends the cluster if no client renews; 0: never.
	EndOnDisconnect float64   `json:"endOnDisconnect,omitempty"`
	Timeline        []Event   `json:"timeline,omitempty"`
	Attempts        []Attempt `json:"attempts,omitempty"`
	Exit            *Exit     `json:"exit,omitempty"`        // with phase Gone
	Unreachable     string    `json:"unreachable,omitempty"` // set while the substrate does not answer: why
}

// GroupStatus counts the nodes of one group that are alive in Ray.
type GroupStatus struct {
	Name   string `json:"name"`
	Ready  int    `json:"ready"`
	Wanted int    `json:"wanted"`
	// GPUs of one node of the group.
	GPUs float64 `json:"gpus,omitempty"`
}

// NodeStatus is one Ray node.
type NodeStatus struct {
	Name    string `json:"name"` // <group>-<i>
	Group   string `json:"group"`
	State   string `json:"state"` // STARTING, ALIVE, DEAD
	Host    string `json:"host,omitempty"`
	NodeID  string `json:"nodeId,omitempty"`
	Message string `json:"message,omitempty"`
}

// Head tells where Ray's servers are, as seen on the head's node.
type Head struct {
	Address    string `json:"address,omitempty"`   // of the GCS, ip:port
	Dashboard  string `json:"dashboard,omitempty"` // URL
	ClientPort int    `json:"clientPort,omitempty"`
	Session    string `json:"session,omitempty"` // changes when the head was restarted
	NodeID     string `json:"nodeId,omitempty"`
	RayVersion string `json:"rayVersion,omitempty"`
}

// JobState is Ray's own status of a submitted job, and WAITING before it was submitted.
type JobState string

// The states of a job.
const (
	JobWaiting   JobState = "WAITING"
	JobPending   JobState = "PENDING"
	JobRunning   JobState = "RUNNING"
	JobSucceeded JobState = "SUCCEEDED"
	JobFailed    JobState = "FAILED"
	JobStopped   JobState = "STOPPED"
)

// JobStatus is the cluster's own job.
type JobStatus struct {
	SubmissionID string     `json:"submissionId"`
	Entrypoint   string     `json:"entrypoint,omitempty"` // exactly as submitted
	State        JobState   `json:"state"`
	DriverNodeID string     `json:"driverNodeId,omitempty"`
	LogFile      string     `json:"logFile,omitempty"`
	Start        *time.Time `json:"startTime,omitempty"`
	End          *time.Time `json:"endTime,omitempty"`
	ExitCode     *int       `json:"exitCode,omitempty"`
	Signal       *int       `json:"signal,omitempty"`
	Message      string     `json:"message,omitempty"`
}

// Deadlines are the moments at which the keeper will end the cluster; nil: never.
type Deadlines struct {
	Max   *time.Time `json:"max,omitempty"`
	Idle  *time.Time `json:"idle,omitempty"`
	Total *time.Time `json:"total,omitempty"`
}

// Event is one entry of the timeline, by the substrate's or the keeper's clock.
type Event struct {
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Kind    string    `json:"event"` // phase, job, restart, node
	To      string    `json:"to,omitempty"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Attempt is one try of the same run.
type Attempt struct {
	Attempt      int        `json:"attempt"`
	SubmissionID string     `json:"submissionId,omitempty"`
	Start        *time.Time `json:"start,omitempty"`
	End          *time.Time `json:"end,omitempty"`
	Cause        string     `json:"cause,omitempty"`
	ExitCode     *int       `json:"exitCode,omitempty"`
	Message      string     `json:"message,omitempty"`
}
