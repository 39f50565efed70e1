// Package onemachine is a launcher of this machine, for every substrate that is one: Ray's nodes are processes of the user, the keeper is their detached
// parent, and the run directory is the record. A Substrate decides when nodes may start.
//
// A cluster lives in <StateDir>/clusters/<name>/ (docs/keeper.md lists the files). A pipe from the client to the keeper closes when
// the client dies before the commit, and pipes from the keeper to its nodes close when the keeper dies: that ends them. What is left of a killed keeper is
// found by markers in the processes' environment. A lock for each name, outside its directory, makes one cluster of
// simultaneous launches.
package onemachine

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"slices"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/trust"
)

// Config has the directories of the launcher. The zero value is for users.
type Config struct {
	// StateDir holds run directories. Default: $XDG_STATE_HOME/rayctl, or ~/.local/state/rayctl, and below it the directory Below.
	StateDir string
	// CacheDir holds Ray environments. Default: $XDG_CACHE_HOME/rayctl, or the system's place for caches.
	CacheDir string
	// Logger takes notes for -v; nil: none.
	Logger *slog.Logger
}

// Substrate is what is particular to one kind of clusters of this machine.
type Substrate interface {
	// Name is the launcher's name.
	Name() string
	// StateSubdir is the part of the default StateDir that has the substrate's clusters; "" for all of it.
	StateSubdir() string
	// Require makes ready what a launch needs of the substrate; the error names what is missing.
	Require(ctx context.Context) error
	// Start is how the keeper of a cluster of this name starts its nodes.
	Start(name string) keeper.Start
	// Check is what doctor looks at beside the machine.
	Check(ctx context.Context) []launcher.Check
}

// Launcher runs clusters on this machine. It implements launcher.Launcher, HostExecer and EnvironmentKeeper.
type Launcher struct {
	on       Substrate
	clusters string // directory of run directories
	locks    string
	scripts  string // directory of the keeper's program, in each version that was used
	cacheDir string
	host     string
	owner    string // user@host
	log      *slog.Logger
}

var (
	_ launcher.Launcher          = (*Launcher)(nil)
	_ launcher.HostExecer        = (*Launcher)(nil)
	_ launcher.EnvironmentKeeper = (*Launcher)(nil)
)

// Properties say that heads are processes of this machine.
func (l *Launcher) Properties() launcher.Properties {
	return launcher.Properties{SharedHosts: true, HeadsHere: true}
}

// Searches is true: there is one directory of clusters.
func (l *Launcher) Searches(context.Context, string) bool { return true }

// New returns the launcher. It touches nothing yet.
func New(c Config, on Substrate) (*Launcher, error) {
	if c.StateDir == "" {
		dir, err := userDir("XDG_STATE_HOME", ".local/state")
		if err != nil {
			return nil, err
		}
		c.StateDir = filepath.Join(dir, on.StateSubdir())
	}
	if c.CacheDir == "" {
		dir, err := userDir("XDG_CACHE_HOME", ".cache")
		if err != nil {
			return nil, err
		}
		c.CacheDir = dir
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, launcher.Fail(runstate.CodeConfig, err, "`hostname` must print it", "this machine's host name cannot be read: %v", err)
	}
	for _, dir := range []*string{&c.StateDir, &c.CacheDir} {
		if *dir, err = filepath.Abs(*dir); err != nil {
			return nil, launcher.Fail(runstate.CodeConfig, err, "change to a directory that exists", "the current directory does not exist any more: %v", err)
		}
		if err := trust.CheckDir(*dir); err != nil {
			return nil, notOurs(*dir, err)
		}
	}
	return &Launcher{
		on:       on,
		clusters: filepath.Join(c.StateDir, "clusters"), locks: filepath.Join(c.StateDir, "locks"),
		scripts:  filepath.Join(c.StateDir, "keeper"),
		cacheDir: c.CacheDir, host: host, owner: userName() + "@" + host, log: c.Logger,
	}, nil
}

// userDir is rayctl's directory below an XDG base directory; relative values of the variable are ignored, as the XDG specification requires.
func userDir(variable, below string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "rayctl"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", launcher.Fail(runstate.CodeConfig, err, "set HOME or "+variable, "there is no home directory: %v", err)
	}
	return filepath.Join(home, below, "rayctl"), nil
}

// notOurs refuses a directory whose records, programs and secrets somebody else could have written.
func notOurs(dir string, err error) error {
	if !errors.As(err, new(*trust.Error)) {
		return writeFailed(dir, err)
	}
	reason, fix := trust.Explain(err)
	if fix != "" {
		fix += ", else "
	}
	return launcher.Fail(runstate.CodePermission, err, fix+"set XDG_STATE_HOME and XDG_CACHE_HOME to directories that only you may write to", "%s is not used, as %s", dir, reason)
}

func userName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

// Name is the substrate's.
func (l *Launcher) Name() string { return l.on.Name() }

// Environment is this process's, without what marks the processes of a cluster that it may run in.
func Environment() []string { return environmentWithout(markerName, nodeMarkerName) }

// environmentWithout is this process's environment without some variables.
func environmentWithout(names ...string) []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return len(v) > len(n) && v[:len(n)] == n && v[len(n)] == '=' })
	})
}
