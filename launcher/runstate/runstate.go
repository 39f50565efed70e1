// Package runstate is the model of a run: the phases of its cluster, its nodes, job, attempts and timeline, how it ended and with which exit code, and what
// is concluded of a cluster whose keeper is dead. The keeper writes it, the launchers and the commands read it, and what the keeper's Python knows of it
// (keeper/rayctl_keeper/state/model.py) and the table of causes in docs/exit-codes.md are made from it by `make docs`.
package runstate

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
	Suspended    Phase = "Suspended"    // the substrate has stopped what had its resources, or taken them back, and may let it go on; no keeper writes it
)

// Word is the phase as people read it. Documents have the phase itself.
func (p Phase) Word() string {
	switch p {
	case Draining:
		return "Ending"
	case Gone:
		return "Ended"
	default:
		return string(p)
	}
}

// Ended reports whether nothing is allocated any more.
func (p Phase) Ended() bool { return p == Gone }

// State is the keeper's state of a living cluster, or (with Exit and Log) of one that has ended. Its JSON is the state document of docs/keeper.md.
type State struct {
	Revision int64  `json:"revision"`
	Name     string `json:"name"`
	Launcher string `json:"launcher"`
	SpecHash string `json:"specHash"` // of the cluster file that was accepted last
	Changes  int    `json:"changes"`  // of the file, that the living cluster has taken
	Attempt  int    `json:"attempt"`  // from 1

	Phase  Phase     `json:"phase"`
	Reason Reason    `json:"reason"`
	Since  time.Time `json:"since"` // of the phase

	Groups []Group `json:"groups"`
	Head   Head    `json:"head"`
	Keeper Process `json:"keeper"`
	Nodes  []Node  `json:"nodes"`
	// GPUs are what was measured of them, by node, also of former ones.
	GPUs []GPUUse `json:"gpus,omitempty"`
	// Allocations are what was asked of the substrate for the cluster, the oldest first.
	Allocations []Allocation `json:"allocations,omitempty"`
	// FormerAllocations are the sums of nodes of elastic groups that ended long ago and are not listed any more.
	FormerAllocations []FormerAllocations `json:"formerAllocations,omitempty"`
	// Offers is how many submissions of jobs for nodes wait for a client, because the keeper's own node may not submit jobs.
	Offers int  `json:"offers,omitempty"`
	Job    *Job `json:"job"` // nil: a cluster without a job of its own
	// OutputDir is RAYCTL_OUTPUT_DIR of the drivers on a cluster without a job of its own. Of an ended one it is empty if nothing was written there, or if it went with the nodes.
	OutputDir string `json:"outputDir,omitempty"`
	// Submissions are the jobs that were submitted to a cluster without a job of its own and have not ended, the newest first.
	Submissions []Submission `json:"submissions"`
	// EndedSubmissions are those that have ended; nil: none.
	EndedSubmissions *EndedSubmissions `json:"endedSubmissions,omitempty"`

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

// Reason is why a cluster is where it is, in the substrate's own words turned into a sentence.
type Reason struct {
	Code    string `json:"code,omitempty"`    // the substrate's: Resources, ErrImagePull, WaitingForNodes; or the cause of an end
	Message string `json:"message,omitempty"` // one sentence
	Hint    string `json:"hint,omitempty"`    // next step for the user
}

// Group counts the nodes of one group that are alive in Ray.
type Group struct {
	Name   string `json:"name"`
	Ready  int    `json:"ready"`
	Wanted int    `json:"wanted"`
	// GPUs of one node of the group.
	GPUs float64 `json:"gpus"`
	// Min and Max are the minimum and the maximum number of nodes of an elastic group; its Wanted counts those that exist or are requested.
	Min int `json:"min,omitempty"`
	Max int `json:"max,omitempty"`
}

// Elastic reports whether the number of the group's nodes follows demand.
func (g Group) Elastic() bool { return g.Max > 0 }

// Required is the number of required nodes of the group.
func (g Group) Required() int {
	if g.Elastic() {
		return g.Min
	}
	return g.Wanted
}

// Purposes of an allocation.
const (
	PurposeMain    = "main"    // of all required nodes
	PurposeHead    = "head"    // of an early head
	PurposeGang    = "gang"    // of all other required nodes, where the head is early
	PurposeElastic = "elastic" // a node of an elastic group
)

// The states of an allocation.
const (
	AllocationQueued   = "queued"
	AllocationGranted  = "granted"
	AllocationReleased = "released"
)

// Allocation is what the substrate grants at once: nodes that come and go together, or a single one of an elastic group.
type Allocation struct {
	ID       string         `json:"id"`
	Purpose  string         `json:"purpose"` // main, head, gang or elastic
	Groups   map[string]int `json:"groups"`  // numbers of nodes
	State    string         `json:"state"`   // one of the Allocation constants
	Queued   *time.Time     `json:"queued"`
	Granted  *time.Time     `json:"granted"`
	Released *time.Time     `json:"released"`
	Expected *time.Time     `json:"expected,omitempty"` // when the substrate expects to grant it, while it is queued
	Where    string         `json:"where,omitempty"`    // the substrate's name for what holds the nodes, such as job 12
	Message  string         `json:"message,omitempty"`  // the substrate's reason to wait; why it was released
}

// FormerAllocations are allocations of a group's single nodes that have ended, as sums.
type FormerAllocations struct {
	Group           string  `json:"group"`
	Count           int     `json:"count"` // nodes that were granted
	NodeSeconds     float64 `json:"nodeSeconds"`
	BusyNodeSeconds float64 `json:"busyNodeSeconds"` // while the driver ran
	Most            int     `json:"most"`            // nodes at one time, those that are still listed among them
	Until           string  `json:"until"`           // when the last of them was released, for the keeper
}

// Head has the addresses of Ray's servers, as seen on the head's node; fields are empty until known.
type Head struct {
	Address    string `json:"address"`   // of the GCS, host:port
	Dashboard  string `json:"dashboard"` // URL
	ClientPort int    `json:"clientPort"`
	Session    string `json:"session"` // changes when the head was restarted
	NodeID     string `json:"nodeId"`
	RayVersion string `json:"rayVersion"`
	Token      bool   `json:"token"`             // Ray's token authentication is on
	TokenFile  string `json:"tokenFile"`         // its file in the run directory; "": it is the token of the keeper's API, as on Kubernetes and in an earlier rayctl's clusters
	FastStart  bool   `json:"fastStart"`         // rayctl has changed functions inside `ray start`, see ray.fastStart
	Prepared   bool   `json:"prepared"`          // job.prepare has succeeded on this cluster: the drivers of further attempts need no other
	Leaving    string `json:"leaving,omitempty"` // the session of a head that was being taken away (KubeRay): it may answer for a while, and is not used any more
}

// Process is the keeper itself.
type Process struct {
	URL       string `json:"url"`
	Host      string `json:"host"`
	PID       int    `json:"pid"`
	StartTime int64  `json:"startTime"` // field 22 of /proc/PID/stat: clock ticks since boot; 0 where there is no /proc
}

// The states of a node.
const (
	NodeStarting = "STARTING"
	NodeAlive    = "ALIVE"
	NodeDead     = "DEAD"  // it was lost while the cluster lived
	NodeEnded    = "ENDED" // with its cluster
)

// Node is one Ray node.
type Node struct {
	Name    string `json:"name"` // <group>-<i>
	Group   string `json:"group"`
	PID     int    `json:"pid"` // of its supervisor, where the keeper started it
	NodeID  string `json:"nodeId"`
	State   string `json:"state"` // one of the Node constants
	Host    string `json:"host"`
	Message string `json:"message"`
	// Allocation is the id of the one that holds the node.
	Allocation string `json:"allocation,omitempty"`
	// Joined and Left are when it was alive in Ray first and last.
	Joined *time.Time `json:"joined,omitempty"`
	Left   *time.Time `json:"left,omitempty"`
}

// GPUUse is how much of its GPUs' time a node has used, as NVML or nvidia-smi shows it.
type GPUUse struct {
	Node        string  `json:"node"`        // of a pod its address
	Count       int     `json:"count"`       // GPUs
	Seconds     float64 `json:"seconds"`     // GPU-seconds that were measured
	BusySeconds float64 `json:"busySeconds"` // those of them in which a kernel ran
	Message     string  `json:"message"`     // why they are not measured
}

// Codes of a Reason that more than one program uses.
const (
	// ReasonGPUsDoNothing: lifetime.idleGpu will end the cluster if that continues.
	ReasonGPUsDoNothing = "GpusIdle"
	// ReasonUnmet: tasks, actors or placement groups wait for resources that no node can ever have.
	ReasonUnmet = "Unmet"
	// ReasonHeadResets: the head's address resets connections.
	ReasonHeadResets = "HeadResets"
	// ReasonSubmitted: the batch system has the job, and has not answered yet why it waits.
	ReasonSubmitted = "Submitted"
)

// Deadlines are the moments at which the keeper will end the cluster; nil: never, or not known yet.
type Deadlines struct {
	Max   *time.Time `json:"max"`
	Idle  *time.Time `json:"idle"`
	Total *time.Time `json:"total"`
	// IdleGPU is known once the GPUs have done nothing for half of the time.
	IdleGPU *time.Time `json:"idleGpu"`
}

// Kinds of events that the client uses; a keeper writes others, too.
const (
	EventPhase   = "phase"
	EventJob     = "job"
	EventPrepare = "prepare"
	// EventNode is of a node that came or went after the cluster was Ready: Code is its name, To its state.
	EventNode = "node"
	// EventFiles is of files that the job has left where they go with the cluster.
	EventFiles = "files"
	// EventEnvironment is of the launcher that makes Python environments, before there is a keeper.
	EventEnvironment = "environment"
)

// What an environment's events lead to.
const (
	EnvironmentMaking = "making"
	EnvironmentMade   = "made"
)

// Event is one entry of the timeline, by the substrate's or the keeper's clock.
type Event struct {
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
	Kind    string    `json:"event"` // phase, job, prepare, environment, commit, restart, node, head, extend, scale, change, gpus, files or keeper
	To      string    `json:"to,omitempty"`
	Code    string    `json:"code,omitempty"`
	Message string    `json:"message,omitempty"`
}

// Attempt is one try of the same run that has ended.
type Attempt struct {
	Attempt      int        `json:"attempt"`
	SubmissionID string     `json:"submissionId"`
	Start        *time.Time `json:"start"`
	End          *time.Time `json:"end"`
	Cause        string     `json:"cause"`
	ExitCode     *int       `json:"exitCode"`
	Message      string     `json:"message"`
	LogBegin     int64      `json:"logBegin,omitempty"` // as Job.LogBegin
	// Figures are what the driver gave for the receipt, by name (keeper/rayctl_keeper/driver/figures.py).
	Figures map[string]float64 `json:"figures,omitempty"`
}

// Log describes the keeper's copy of the driver's output.
type Log struct {
	Bytes   int64      `json:"bytes"`
	Missing [][2]int64 `json:"missing"` // ranges [from, to) of the driver's output that the copy does not have; to -1: unknown
}
