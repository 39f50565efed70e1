// Package slurm is the launcher inside Slurm allocations: one batch script, one step with a supervisor for each Ray node,
// and a keeper that the script becomes. Slurm is reached by commands, here or over ssh.
//
// It is the life of a cluster: launch, watch, terminate, list, result, and why it ended. What it stands on is in packages of its own: a run's directory (rundir),
// the site (site, controller), and the ways into the job (tunnels). The job's comment names the launch by a nonce, so that an answer of sbatch that was
// lost is found again.
//
// The words for a cluster's end:
//
//	fate        what Slurm's controller says of the job: unknown, alive, gone (fate.go)
//	verdict     the cause of an end and its message, where the keeper did not write them or Slurm knows better (verdict.go); a nil verdict changes nothing
//	outcome     whether the cluster has ended, and the verdict on it (conclude.go)
//	conclude    write the result in a dead keeper's place, or change its cause by a verdict, and remove what must not outlive the cluster
//	concluded   the state that conclude writes
//	withdraw    cancel a job that waits, and conclude its cluster (withdraw.go)
//	abandon     remove a launch that was never committed, as if it had never been (launch.go)
package slurm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mattn/go-isatty"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/controller"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
	"github.com/rayctl/rayctl/slurm/site"
	"github.com/rayctl/rayctl/slurm/slurmspec"
	"github.com/rayctl/rayctl/slurm/tunnels"
)

// Config is how to reach one Slurm.
type Config struct {
	// Runner runs commands where Slurm is, and reaches its files there.
	Runner remote.Runner
	// REST, if set, is used for requests to the controller in place of Slurm's commands. Files still go through Runner.
	REST *controller.REST
	// Cluster is slurm.cluster.
	Cluster string
	// Shared is a file through which processes of this user share the controller's answers. "": they do not.
	Shared string
	// Dir is slurm.dir; ~/ and "" are relative to the home directory there. Default: ~/.rayctl.
	Dir string
	// Keep is slurm.keepEnv.
	Keep []string
	// Getenv reads the environment of the allocation that this command may be in; nil: this process's.
	Getenv func(string) string
	// Logger takes notes for -v; nil: none.
	Logger *slog.Logger
}

// Launcher runs clusters as jobs of one Slurm user. It implements launcher.Launcher, HostExecer and Submitter.
type Launcher struct {
	site    *site.Site
	log     *slog.Logger
	tunnels *tunnels.Pool
	keep    []string // slurm.keepEnv
}

var (
	_ launcher.Launcher   = (*Launcher)(nil)
	_ launcher.HostExecer = (*Launcher)(nil)
	_ launcher.Submitter  = (*Launcher)(nil)
)

// Properties say that heads are on nodes, beside those of other jobs.
func (l *Launcher) Properties() launcher.Properties { return launcher.Properties{SharedHosts: true} }

// Notes has none: all of a cluster file is given, or refused.
func (l *Launcher) Notes(*spec.ClusterSpec) []string { return nil }

// Searches is true: there is one directory of runs.
func (l *Launcher) Searches(context.Context, string) bool { return true }

// New returns the launcher. It touches nothing yet.
func New(c Config) *Launcher {
	if c.Runner == nil {
		c.Runner = remote.Here{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Dir == "" {
		c.Dir = "~/.rayctl"
	}
	if c.Getenv == nil {
		c.Getenv = os.Getenv
	}
	var ctl controller.Controller = controller.Commands{Runner: c.Runner, Cluster: c.Cluster, Keep: c.Keep}
	if c.REST != nil {
		ctl = c.REST
	}
	s := &site.Site{
		Controller: ctl, Queue: controller.NewQueue(ctl, c.Shared, c.Logger), Runner: c.Runner, Log: c.Logger, Getenv: c.Getenv,
		Runs: rundir.NewRoot(rundir.Config{Runner: c.Runner, Dir: c.Dir, System: "Slurm", Option: "slurm.dir", Script: script.File, Host: script.HostFile, Keep: c.Keep, Logger: c.Logger}),
	}
	return &Launcher{site: s, log: c.Logger, keep: c.Keep, tunnels: tunnels.NewPool(c.Runner, c.Logger)}
}

// Close ends what the launcher runs on the site: a later call starts it again.
func (l *Launcher) Close() {
	l.tunnels.Close()
	l.site.Runs.Files.Close()
}

// Substrate is Slurm as a launcher of rayctl.
var Substrate = launcher.Substrate{Substrate: slurmspec.Substrate, New: func(s *spec.ClusterSpec, log *slog.Logger) (launcher.Launcher, error) { return forSpec(s, log) }}

// forSpec returns the launcher that a file selects.
func forSpec(s *spec.ClusterSpec, log *slog.Logger) (*Launcher, error) {
	section := &slurmspec.Section{}
	if s != nil && slurmspec.Of(s) != nil {
		section = slurmspec.Of(s)
	}
	c := Config{Dir: section.Dir, Cluster: section.Cluster, Keep: section.KeepEnv, Logger: log, Shared: sharedFile(section)}
	var err error
	if c.Runner, err = runnerFor(section); err != nil {
		return nil, err
	}
	if section.Transport == "slurmrestd" || section.Transport != "local" && section.Host == "" && section.RESTURL != "" {
		c.REST = controller.NewREST(section.RESTURL, section.RESTTokenFile)
	}
	return New(c), nil
}

// runnerFor chooses where commands run and files are.
func runnerFor(s *slurmspec.Section) (remote.Runner, error) {
	if s.Host == "" || s.Transport == "local" {
		return remote.Here{}, nil
	}
	ssh, err := remote.NewSSH(s.Host, s.SSHOptions)
	if err != nil {
		return nil, err
	}
	ssh.Person = isatty.IsTerminal(os.Stdin.Fd()) && isatty.IsTerminal(os.Stderr.Fd()) // completion has no stderr
	return ssh, nil
}

// sharedFile is the file in which this user's processes share a controller's answers; "" if they cannot.
func sharedFile(s *slurmspec.Section) string {
	dir, err := remote.OwnDir("slurm")
	if err != nil {
		return ""
	}
	way, err := json.Marshal([]any{s.Transport, s.Host, s.SSHOptions, s.RESTURL, s.RESTTokenFile, s.Cluster, os.Getenv("SLURM_CONF"), os.Getenv("SLURM_CLUSTERS")})
	if err != nil {
		return ""
	}
	key := sha256.Sum256(way)
	return filepath.Join(dir, hex.EncodeToString(key[:8])+".json")
}

// Name is "slurm".
func (l *Launcher) Name() string { return slurmspec.Name }

// Check examines the connection to Slurm, the file's request to Slurm, slurm.dir, and one node.
func (l *Launcher) Check(ctx context.Context, s *spec.ClusterSpec) []launcher.Check {
	return l.site.Check(ctx, s)
}
