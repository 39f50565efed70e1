// Package keeper is the client's side of the keeper: the process that lives beside a cluster, submits its job and owns its end.
//
// It has the protocol types (orders, commit), a reader of run directories, and a client of the keeper's HTTP API.
// The protocol is described in docs/keeper.md; the keeper itself is keeper/rayctl_keeper.
package keeper

import (
	"encoding/json"
	"strings"

	"github.com/rayctl/rayctl/launcher/runstate"
)

// Version is the version of the orders this package writes. A keeper refuses others.
const Version = 1

// Names of the files in a run directory.
const (
	OrdersFile      = "orders.json"      // what to do; written by the client before the keeper starts, changed by the keeper that takes a changed cluster file
	TokenFile       = "token"            // the bearer token of the API
	RayTokenPrefix  = "ray-token."       // and a number: Ray's token, which the keeper makes anew for each start of a head; see RayToken
	SecretsFile     = "secrets.json"     // a JSON object of environment variables, removed at the end
	CommitFile      = "commit"           // a Commit; its appearance is the commit
	StateFile       = "state.json"       // the current State
	ResultFile      = "result.json"      // the final State; written once, last
	DriverLog       = "driver.log"       // the driver's output; complete when ResultFile is there
	KeeperLog       = "keeper.log"       // the keeper's decisions
	ClaimFile       = "claim"            // made by the keeper that took the directory
	ReserveFile     = ".reserve"         // room for the keeper's documents on a disk that becomes full
	JobsDir         = "jobs"             // the output of jobs that others submitted, after the end
	SubmissionsFile = "submissions.json" // Ray's records of jobs that were submitted to a cluster without a job of its own
	NodesDir        = "nodes"            // Ray's own logs, one directory a node, after the end
)

// IsSecret reports whether a file of the run directory exists to hold a secret; none outlives the cluster.
func IsSecret(name string) bool {
	return name == TokenFile || name == SecretsFile || strings.HasPrefix(name, RayTokenPrefix)
}

// Orders is the document that configures a cluster's keeper.
type Orders struct {
	Version       int                `json:"version"`
	Name          string             `json:"name"`
	Attempt       int                `json:"attempt"`            // from 1; greater when the substrate started the run again
	RestartReason string             `json:"restartReason"`      // why this attempt exists, empty for the first
	Attempts      []runstate.Attempt `json:"attempts,omitempty"` // by earlier keepers; their output is in AttemptLog files
	Launcher      string             `json:"launcher"`
	SpecHash      string             `json:"specHash"`

	Ray           RaySettings `json:"ray"`
	Groups        []Group     `json:"groups"`            // node indexes run over the groups in this order; index 0 is the head
	Scaling       *Scaling    `json:"scaling,omitempty"` // with a Group's Max
	Start         Start       `json:"start"`
	Listen        string      `json:"listen"`            // host:port of the keeper's API; port 0 picks a free one
	Advertise     string      `json:"advertise"`         // address by which others reach the keeper's host
	DashboardHost string      `json:"dashboardHost"`     // address the dashboard binds to
	Network       string      `json:"network,omitempty"` // interfaces and CIDRs, of which the first that a node has is its address; "auto" above means that one
	Ports         string      `json:"ports,omitempty"`   // FIRST-LAST: all that listens on a node takes its ports from there; empty: any free ones
	WatchStdin    bool        `json:"watchStdin"`        // end of file on stdin before the commit means that the client died
	// Signals maps signals (TERM, INT, USR1) to causes of the end; by default USR1 is time-limit, others are interrupted.
	// With the cause "detach" the keeper of an external cluster exits and leaves the cluster running: another keeper will take over.
	Signals map[string]string `json:"signals,omitempty"`
	Job     *Job              `json:"job"`   // nil: keep the cluster until it is ended
	Grace   float64           `json:"grace"` // Job.Grace if there is no job: for drivers submitted to the cluster
	// OutputDir is Job.OutputDir if there is no job: for drivers submitted to the cluster.
	OutputDir string `json:"outputDir"`
	Scratch   bool   `json:"scratch,omitempty"` // OutputDir goes with the nodes
	// Fetch makes the keeper hold the end of a run, while its nodes still are there, for a client that copies OutputDir (Client.Fetch).
	Fetch    bool     `json:"fetch,omitempty"`
	Lifetime Lifetime `json:"lifetime"`
	// ShareDir gets copies of the output, the state and the result, which its group may read (keeper/rayctl_keeper/run/shared.py).
	ShareDir string `json:"shareDir,omitempty"`
}

// RaySettings describes how Ray is started on every node.
type RaySettings struct {
	Python    string            `json:"python,omitempty"` // the nodes' Python with Ray; not for the mode external
	Version   string            `json:"version,omitempty"`
	Least     string            `json:"least,omitempty"` // the oldest Ray for which the cluster was made; "": that is Version, or any
	FastStart string            `json:"fastStart"`       // keeper/rayctl_keeper/rayhook changes functions inside `ray start`: always, never, or with the Ray versions listed here
	Env       map[string]string `json:"env,omitempty"`
	Setup     string            `json:"setup,omitempty"`
	TempRoot  string            `json:"tempRoot"` // node-local directory; short (a path below it is an AF_UNIX socket)
	// NodeLogs selects when supervisors save Ray's logs: always (also if empty), never, or onFailure (not after a good end).
	NodeLogs string `json:"nodeLogs,omitempty"`
}

// Group is a set of equal Ray nodes. A nil count is left to Ray (or, on Slurm, to the allocation).
type Group struct {
	Name string `json:"name"`
	// Count is the number of required nodes; Max the maximum, as Ray's autoscaler requests them (0: no more than Count); Initial how many of those
	// there are at the start.
	Count             int      `json:"count"`
	Max               int      `json:"max,omitempty"`
	Initial           int      `json:"initial,omitempty"`
	CPUs              *float64 `json:"cpus"`
	GPUs              *float64 `json:"gpus"`
	Memory            *int64   `json:"memory"`            // bytes
	ObjectStoreMemory *int64   `json:"objectStoreMemory"` // bytes
	// ObjectSpillingDirectory is where each node makes a directory of its own for spilled objects; empty: its temporary directory.
	ObjectSpillingDirectory string             `json:"objectSpillingDirectory,omitempty"`
	Resources               map[string]float64 `json:"resources,omitempty"`
	Env                     map[string]string  `json:"env,omitempty"`
	Labels                  map[string]string  `json:"labels,omitempty"`
}

// Scaling is for Ray's autoscaler.
type Scaling struct {
	Idle           float64 `json:"idle"`                     // seconds after which a node that nothing uses is removed
	MaxAllocations int     `json:"maxAllocations,omitempty"` // nodes that were asked for at one time; 0: no limit
	UpscalingSpeed float64 `json:"upscalingSpeed"`           // how many nodes of a group may be on their way, in multiples of those that run; 1 at least (Ray's upscaling_speed)
}

// Modes of Start.
const (
	StartSpawn    = "spawn"    // the keeper starts one supervisor for each node, here
	StartStep     = "step"     // the keeper runs Argv, which starts the supervisors on all nodes
	StartQueue    = "queue"    // as spawn, once a queue of this machine has a free slot
	StartExternal = "external" // somebody else starts the nodes
)

// Start describes how the nodes of the cluster are started.
type Start struct {
	Mode      string   `json:"mode"`
	Argv      []string `json:"argv,omitempty"`      // step: the command that runs what follows once on each node; its argument $SLURMD_NODENAME is the keeper's node. queue: the command that waits for a slot, prints a line when it has it, and keeps it until its standard input ends
	Command   []string `json:"command,omitempty"`   // step: the supervisor's; its argument $RAYCTL_RUN_DIR is the attempt's directory
	Dashboard string   `json:"dashboard,omitempty"` // external: URL of the head's dashboard
	GCS       string   `json:"gcs,omitempty"`       // external: host:port of the head's GCS
	Warning   float64  `json:"warning,omitempty"`   // step: seconds before the job's time limit at which Slurm warns the keeper; 0: it does not
	// Early is true if the head is there before the others: step: what starts the nodes is for the head alone, and the others are a companion job of the group Gang;
	// spawn and queue: all start together, but job.prepare does not wait for all.
	Early bool `json:"early,omitempty"`
	// Placed is true if nodes come one by one, and their pods report that (POST /v1/granted): external: lifetime.start counts from when all required ones have nodes.
	Placed bool `json:"placed,omitempty"`
	// Held is true if a queueing system admits the nodes as a whole, and may take them back and admit them again (external: a RayCluster that is suspended meanwhile): a cluster that is lost
	// waits in its queue again, for which lifetime.queue counts, and lifetime.start counts anew from the next head's first answer.
	Held bool `json:"held,omitempty"`
	// Companions are the jobs of a batch system for nodes that Ray's autoscaler asks for, and for the gang of an early head; nil: there are none.
	Companions *Companions `json:"companions,omitempty"`
	// Container is what the supervisors of a step run in; nil: none.
	Container *Container `json:"container,omitempty"`
}

// Gang is the group of Companions that stands for all required nodes, but an early head.
const Gang = ".gang"

// Companions are further jobs of a batch system, one for each node of an elastic group above the required ones, and one for the gang of an early head.
type Companions struct {
	Name    string            `json:"name"`              // of all of these jobs, and of no others: by it they are found and cancelled
	Scripts map[string]string `json:"scripts"`           // batch scripts by group
	Minutes map[string]int    `json:"minutes,omitempty"` // that a job of a group may run at most, where there is a limit
	// Commented: the scripts have a comment of the file, which is not to be replaced.
	Commented bool `json:"commented,omitempty"`
}

// Bind makes a directory of the host visible in a container.
type Bind struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"readOnly,omitempty"`
}

// Container is what each supervisor of a step runs in.
type Container struct {
	Runtime string   `json:"runtime"` // pyxis, or the program: apptainer or singularity
	Image   string   `json:"image"`
	Args    []string `json:"args,omitempty"`
	Binds   []Bind   `json:"binds"`           // the runtime fails if one is not there
	Where   []string `json:"where,omitempty"` // directories that are bound where they are, if they are there
}

// Job is the driver to submit. -1 restarts means without limit.
type Job struct {
	Entrypoint          string             `json:"entrypoint"`
	Prepare             string             `json:"prepare,omitempty"` // runs before the driver, once on each cluster
	Start               string             `json:"start,omitempty"`   // with an early head: gang, or head to begin without the other nodes; empty is gang
	SubmissionPrefix    string             `json:"submissionPrefix"`  // submitted as <prefix>-<n>, n counts attempts from 1
	Metadata            map[string]string  `json:"metadata,omitempty"`
	EntrypointNumCPUs   float64            `json:"entrypointNumCpus,omitempty"`
	EntrypointNumGPUs   float64            `json:"entrypointNumGpus,omitempty"`
	EntrypointMemory    int64              `json:"entrypointMemory,omitempty"` // bytes
	EntrypointResources map[string]float64 `json:"entrypointResources,omitempty"`
	// EntrypointLabelSelector are labels the driver's node must have.
	EntrypointLabelSelector map[string]string `json:"entrypointLabelSelector,omitempty"`
	Env                     map[string]string `json:"env,omitempty"`
	OutputDir               string            `json:"outputDir"`
	Cwd                     string            `json:"cwd"` // directory of the driver that all nodes have; empty: the package
	CwdOptional             bool              `json:"cwdOptional,omitempty"`
	Grace                   float64           `json:"grace"` // seconds between SIGTERM and SIGKILL of the driver
	Restarts                Restarts          `json:"restarts"`
}

// Restarts limits how often a run begins again, by reason; -1 is without limit.
type Restarts struct {
	Driver      int `json:"driver"`      // the driver failed; the cluster stays
	NodeFailure int `json:"nodeFailure"` // the head was lost; the cluster starts again
	Preempted   int `json:"preempted"`   // the substrate took the nodes
	TimeLimit   int `json:"timeLimit"`   // lifetime.max or the substrate's time limit ended the attempt
}

// Lifetime has limits in seconds, 0 is no limit.
type Lifetime struct {
	Lease      float64 `json:"lease"`      // from the keeper's start until the commit
	Start      float64 `json:"start"`      // from admission until all nodes are ALIVE
	Queue      float64 `json:"queue"`      // until admission
	Max        float64 `json:"max"`        // from admission until the end
	Total      float64 `json:"total"`      // over attempts
	Spent      float64 `json:"spent"`      // of total, by earlier attempts of the run
	Idle       float64 `json:"idle"`       // without work
	IdleGPU    float64 `json:"idleGpu"`    // while all GPUs do nothing
	Silence    float64 `json:"silence"`    // without an answer of the head, while no part of it is seen alive
	Disconnect float64 `json:"disconnect"` // without a renewal by the client
	Keep       float64 `json:"keep"`       // the record, after the end
	// KeepOutput is how many bytes are kept of the output of each submitted job, KeepOutputTotal of all of them on a node. 0: nothing.
	KeepOutput      int64 `json:"keepOutput"`
	KeepOutputTotal int64 `json:"keepOutputTotal"`
}

// Commit is the document that completes the client's part of the launch.
type Commit struct {
	Packages   []Package       `json:"packages,omitempty"`
	RuntimeEnv json.RawMessage `json:"runtimeEnv,omitempty"` // of the job; env_vars get the job's and rayctl's variables
}

// Package is a file of the run directory and its URI in Ray.
type Package struct {
	URI  string `json:"uri"`  // gcs://_ray_pkg_HASH.zip
	File string `json:"file"` // package-HASH.zip
}

// End asks the keeper to end the cluster.
type End struct {
	Cause   string   `json:"cause"` // one of the Cause constants
	Message string   `json:"message,omitempty"`
	Grace   *float64 `json:"grace,omitempty"` // seconds the driver gets; nil: the job's own
	By      string   `json:"by,omitempty"`    // user@host
	Now     bool     `json:"now,omitempty"`   // skip the grace
}

// Change is a changed cluster file, in what a living cluster takes. The keeper compares it with the file before: what was set by hand since stays.
type Change struct {
	SpecHash string            `json:"specHash"`
	Lifetime ChangedLifetime   `json:"lifetime"`
	Groups   map[string][3]int `json:"groups"` // least, most, and nodes at the start, by name
	Scaling  *Scaling          `json:"scaling"`
	Check    bool              `json:"check,omitempty"` // change nothing, only refuse what cannot be done
}

// ChangedLifetime has limits in seconds, 0 is no limit; Max counts from the admission.
type ChangedLifetime struct {
	Max     float64 `json:"max"`
	Idle    float64 `json:"idle"`
	IdleGPU float64 `json:"idleGpu"`
}

// Extend changes limits of the cluster.
type Extend struct {
	Max    *float64 `json:"max,omitempty"`    // seconds from now, 0 is no limit
	Later  bool     `json:"later,omitempty"`  // Max is refused (409) if it would shorten the cluster's life
	AtMost bool     `json:"atMost,omitempty"` // Max changes nothing if it would lengthen it
	MaxBy  *float64 `json:"maxBy,omitempty"`  // seconds by which the limit that is there is moved
	Idle   *float64 `json:"idle,omitempty"`   // seconds, 0 is no limit
}
