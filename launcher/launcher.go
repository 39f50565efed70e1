// Package launcher holds what every substrate shares: the Launcher interface and its promises, the phases of a cluster,
// the pipeline that takes one job through its whole life (Run), its result and its receipt. It depends on no substrate:
// packages local, slurm and kuberay implement Launcher, package cmd chooses one.
package launcher

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// ID names one cluster within one Launcher: the cluster's name, unique for one user of this machine, one Slurm user, or
// one Kubernetes namespace.
type ID string

// Launcher provisions Ray clusters on one substrate. Methods are safe to repeat and safe for concurrent use, from this
// and from any other process or machine that reaches the substrate: the substrate is the database.
//
// Errors that a user can act on are *ExitError values (exit code, sentence, next step). A cancelled context ends a call
// soon, and never undoes or half-does what the substrate already accepted.
type Launcher interface {
	// Name is the name that the launcher registered, such as local.
	Name() string

	// Properties are what commands need to know of its substrate.
	Properties() Properties

	// Validate reports what Launch would refuse before it creates anything, whatever exists under the name: for dry runs and for launches that replace a cluster.
	Validate(ctx context.Context, s *spec.ClusterSpec, p Payload) error

	// Notes are about what the substrate does not give a cluster file as it is. They do not stop the launch.
	Notes(s *spec.ClusterSpec) []string

	// Launch creates the cluster and commits it: when it returns nil the keeper owns the cluster's life and the client
	// may die. If the client dies earlier, everything created ends by itself within the keeper's lease (two minutes at most).
	// The same name with the same spec.Hash is the same cluster: Launch returns its ID and starts nothing.
	// The same name with another hash is an *ExitError of code 65 wrapping ErrConflict, whose text lists the difference.
	// A cluster that has ended keeps its name until its record is removed (lifetime.keep): ErrEnded, code 65.
	Launch(ctx context.Context, s *spec.ClusterSpec, p Payload) (ID, error)

	// Watch sends the cluster's Status at once and then at each change, with the substrate's own reason. It closes the channel
	// when the cluster has ended (the last Status has phase Gone) or ctx ends. Watch restores lost connections to the substrate;
	// while that fails, Status.Unreachable has the reason. An unknown cluster is ErrNotFound.
	// Watch changes nothing on the substrate: Status.Due is the action that no process there takes.
	Watch(ctx context.Context, id ID) (<-chan Status, error)

	// Dial reaches the cluster's dashboard or keeper. The Endpoint reconnects by itself while it is open; the caller closes it.
	// Dial fails with ErrNotReady until the target can answer, and with ErrNotFound once the cluster has ended.
	Dial(ctx context.Context, id ID, t Target) (*Endpoint, error)

	// Result returns the outcome, also after the cluster has ended, for lifetime.keep. ErrNotEnded while the cluster lives;
	// ErrNotFound when neither cluster nor record exists. It changes nothing: if the keeper died it returns the outcome to be recorded.
	Result(ctx context.Context, id ID) (*Result, error)

	// Terminate ends the cluster and returns when nothing is allocated any more. The driver gets its grace unless
	// End.Now. Ending a cluster that has ended or never existed is not an error. If the keeper died, Terminate writes the result.
	Terminate(ctx context.Context, id ID, end End) error

	// List returns living clusters, and finished records when sel.All. Status.Ours distinguishes rayctl's clusters from other Ray clusters. List changes
	// nothing: a cluster with a dead keeper is returned as it will be concluded, with Status.Due, an expired record is left out.
	List(ctx context.Context, sel Selector) ([]Status, error)

	// Searches reports whether List looks where a cluster with this Status.Where is: a launcher may list one place alone, such as a namespace.
	Searches(ctx context.Context, where string) bool

	// Exec runs a command on a node of the cluster, in Ray's environment, and returns its exit code.
	Exec(ctx context.Context, id ID, e ExecRequest) (int, error)

	// DialNode opens a TCP connection to a port on a node of the cluster, as seen from that node (127.0.0.1:port).
	DialNode(ctx context.Context, id ID, node string, port int) (net.Conn, error)

	// ReachNode reports why DialNode could not reach a node, whatever the port; nil: nothing is known against it. It connects to no port, of which some serve one
	// connection alone.
	ReachNode(ctx context.Context, id ID, node string) error

	// FindTools returns the directory on this machine with the cluster's own programs `ray` and `python`; "": this machine has none.
	FindTools(ctx context.Context, id ID) (string, error)

	// Accepted is the file of a living cluster: that of its launch, or the one that it has taken since. ErrNotFound: there is none; ErrEnded.
	Accepted(ctx context.Context, id ID) (*spec.ClusterSpec, error)

	// Accept records a file, with all defaults, that the cluster's keeper has taken.
	Accept(ctx context.Context, id ID, s *spec.ClusterSpec) error

	// Extended applies the keeper's new limits to the substrate's own limits and to the data for a later keeper. If the substrate does not allow this, the error
	// names the time at which the cluster still ends.
	Extended(ctx context.Context, id ID, d runstate.Deadlines) error

	// Forget removes the record of an ended cluster, so that its name is free again.
	Forget(ctx context.Context, id ID) error

	// Reconcile does what no process on the substrate is left to do: it concludes the runs of dead keepers, ends clusters that wait in vain, and removes what dead
	// clients left and records whose time has passed. Watch, List and Result never do; they return it as Status.Due. It returns what it did, or with Scope.DryRun
	// would do. What it cannot read it leaves alone; the error names it, and keeps nothing else from being done. To repeat it, also at the same time on another
	// machine, is safe. `rayctl gc` calls it for all of the user's clusters, Launch by ReconcileBeside for the user's other ones.
	Reconcile(ctx context.Context, s Scope) ([]Collected, error)

	// Examine hands over what there is of a cluster beside its status and its output, living or ended, the most telling first, for debug-dump: the files of its run,
	// what the substrate knows. What cannot be had is handed over as missing, and the rest follows.
	Examine(ctx context.Context, id ID, found Evidence)

	// Check examines the substrate's prerequisites, for doctor.
	Check(ctx context.Context, s *spec.ClusterSpec) []Check

	// Render returns exactly what Launch would create, without secrets. It contacts no substrate.
	Render(s *spec.ClusterSpec) ([]File, error)

	// RenderNetwork returns what a network that denies by default must let through, for render; nil: the substrate has no such rules. It contacts no substrate.
	RenderNetwork(s *spec.ClusterSpec) ([]File, error)
}

// Properties are what differs between the substrates of launchers.
type Properties struct {
	SharedHosts bool // heads have no network of their own: other clusters and programs have ports on the same host
	HeadsHere   bool // that host is this machine
	// FilesEnd: nodes take their files with them. It is the next step for who wants some that an ended cluster left on storage of its own; NAME stands for the
	// cluster's name. "": they are on the host (HostExecer).
	FilesEnd string
}

// End describes why and how a cluster is ended.
type End struct {
	Cause   string `json:"cause"` // one of runstate.Causes
	Message string `json:"message,omitempty"`
	Now     bool   `json:"now,omitempty"`   // no grace for the driver
	Final   bool   `json:"final,omitempty"` // repeating the run would end it the same way, whatever the cause
	// IfWaiting spares a cluster that has begun meanwhile.
	IfWaiting bool `json:"ifWaiting,omitempty"`
}

// Target is a server of a cluster that Dial reaches.
type Target string

// The targets of Dial.
const (
	Dashboard Target = "dashboard" // Ray's dashboard: job API, state API, Serve
	Keeper    Target = "keeper"    // the keeper's API (docs/keeper.md)
)

// Endpoint is an open connection path to a Target.
type Endpoint struct {
	// URL is the base, such as http://127.0.0.1:40001, reachable by DialContext (nil: this machine's; callers use proven.Dial).
	URL string
	// Token is the target's bearer token: Ray's of the present head, or the keeper's; never print it.
	Token string
	// TokenHeader carries the token: "Authorization", or "X-Ray-Authorization" behind the Kubernetes API server.
	TokenHeader string
	// DialContext opens one connection to the target, whatever host the URL names; nil if the URL is reachable directly.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Via describes the path, for -v: "direct", "ssh -W through login1", "port-forward (websocket)".
	Via string
	// CloseFunc releases the path's resources; nil if there are none.
	CloseFunc func() error
}

// Close releases the path's resources.
func (e *Endpoint) Close() error {
	if e == nil || e.CloseFunc == nil {
		return nil
	}
	return e.CloseFunc()
}

// Payload is what a launch carries beside the spec: the packages of the job, made while the cluster starts.
type Payload struct {
	// DryRun is true for Validate alone, without a launch after it: it installs nothing, and warns of what the launch would install.
	DryRun bool
	// Packages packs the working directory and py_modules. It is called at most once, after the cluster began to start, and
	// not at all when the cluster already exists. nil: nothing to pack.
	Packages func(ctx context.Context) (*Packages, error)
	// Secrets are the values of spec.Secrets that come from this client, by name.
	Secrets map[string]string
	// EndOnDisconnect makes the keeper end the run when this client's renewals stop for this long; 0: never.
	EndOnDisconnect time.Duration
	// Fetch makes the end of the run wait for a client that copies the output directory, where that cannot be read after the end (runstate.Job.WaitsForFetch).
	Fetch bool
	// Command describes the launching command, for the record: argv[0:1] and the verb, never values of options.
	Command string
	// Progress receives notes for the user while Launch works ("installing ray 2.60.0"); nil: none.
	Progress func(Progress)
	// Warn receives sentences about the launch that the user should keep; nil: nobody does.
	Warn func(text string)
}

// Packages is the outcome of packing.
type Packages struct {
	// Files are local zip files by their content-addressed URI, gcs://_ray_pkg_HASH.zip.
	Files []PackageFile
	// RuntimeEnv holds working_dir and py_modules with those URIs, and the user's other settings (pip, uv, ...).
	RuntimeEnv map[string]any
}

// PackageFile is one package on this machine.
type PackageFile struct {
	URI  string
	Path string
	Size int64 // bytes
}

// Progress is one note about a long step.
type Progress struct {
	Text        string // "uploading working directory"
	Done, Total int64  // bytes, files or 0
	// Detail: this is one of many short steps of the note before. Off a terminal only few of them are shown.
	Detail bool
}

// Selector chooses clusters for List.
type Selector struct {
	Labels map[string]string // all must match
	Names  []string          // any; empty: all
	All    bool              // finished records too
	Others bool              // Ray clusters that rayctl did not start, too
	// Whole: each status is what Watch would send first. Without it a launcher may leave out Reason and what only keepers know, where that would cost requests
	// beyond those that find the clusters.
	Whole bool
}

// Matches reports whether phase and labels of a cluster are selected. Launchers apply Names and Others, which decide what is queried at all.
func (sel Selector) Matches(s Status) bool {
	if s.Phase.Ended() && !sel.All {
		return false
	}
	for k, v := range sel.Labels {
		if s.Labels[k] != v {
			return false
		}
	}
	return true
}

// File is one rendered file: a manifest, a batch script, orders.
type File struct {
	Name    string // "script.sh", "raycluster.yaml"
	Content []byte
}

// Optional abilities; As finds them. Submitter is in offers.go, Tender in reconcile.go.
type (
	// HostExecer runs a command with the user's own environment on the host from which the substrate is used: this machine, or the login node. What
	// ended clusters left is there. It returns the command's exit code.
	HostExecer interface {
		ExecOnHost(ctx context.Context, e ExecRequest) (int, error)
	}
	// Resizer changes sizes of groups, where the keeper does not start their nodes.
	Resizer interface {
		// Resize changes the sizes of the groups that differ between two cluster files, and scaling.idle: all of it, or nothing if a group cannot get its
		// size. If was is nil, it sets the sizes of all elastic groups. With check it only reports whether it could.
		Resize(ctx context.Context, id ID, was, now *spec.ClusterSpec, check bool) error
		// Scale changes the sizes of elastic groups, all of them or none, and returns the elastic groups.
		Scale(ctx context.Context, id ID, sizes []keeper.Scale) ([]runstate.Group, error)
	}
	// EnvironmentKeeper keeps Python environments on this machine, for gc.
	EnvironmentKeeper interface {
		Environments(ctx context.Context) ([]Environment, error)
		// CollectEnvironments removes those that no cluster uses, however new they are.
		CollectEnvironments(ctx context.Context, dryRun bool) ([]Collected, error)
	}
)

// As finds an optional ability of a launcher.
func As[T any](l Launcher) (T, bool) {
	t, able := l.(T)
	return t, able
}

// ExecRequest is a command to run on a node.
type ExecRequest struct {
	Node           string // "" is the head's node
	Command        []string
	Stdin          io.Reader // nil: none
	Stdout, Stderr io.Writer
	TTY            bool // on a terminal, which is also Stdin
	// Shared is called before a command runs on this process's own terminal, where Ctrl-C signals both processes; nil: no call. Without such
	// a terminal Ctrl-C reaches only the command, as input.
	Shared func()
}

// StatusVariable and its value make `ray status` ask the GCS for nodes, resources and demands. Without them it prints what an autoscaler last wrote, and
// heads without elastic groups run none (ray start --no-monitor). Works with Ray 2.9.3 and 2.60 (ray/autoscaler/v2/utils.py, is_autoscaler_v2).
const (
	StatusVariable = "RAY_enable_autoscaler_v2"
	StatusValue    = "1"
)

// Check is one finding of doctor.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`         // what was found
	Hint   string `json:"hint,omitempty"` // next step if not OK
}

// Environment is a Python environment that rayctl made and keeps.
type Environment struct {
	Dir   string
	Bytes int64
	Used  time.Time // last
}

// EnvironmentTaken is how long after its last use nobody removes an environment: a launch that has just chosen it appears among the clusters that use it
// within this time.
const EnvironmentTaken = 10 * time.Minute
