package onemachine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/rayenv"
)

const (
	leastDisk = 5 << 30 // an environment with Ray takes half a gibibyte, its installation twice that, and Ray spills to disk
	// leastInstall is what the first environment needs in any case: Ray alone takes 300 MB, in the cache of uv and, on a file system without hard links, again.
	leastInstall = 300 << 20
	leastShm     = 1 << 30
	leastFiles   = 4096
)

// Check looks at what a cluster on this machine needs. It installs and changes nothing that stays.
func (l *Launcher) Check(ctx context.Context, s *spec.ClusterSpec) []launcher.Check {
	if s == nil {
		s = &spec.ClusterSpec{}
	}
	s = spec.For(s, l.Name())
	return append(l.on.Check(ctx),
		checkBash(s), l.checkRay(ctx, s), checkWritable("run directories", l.clusters, "XDG_STATE_HOME"), checkWritable("cache", l.cacheDir, "XDG_CACHE_HOME"),
		checkNodes(s), l.checkDisk(), checkTemp(s), checkShm(), checkFiles(),
	)
}

// checkBash reports whether Ray can start a process.
func checkBash(s *spec.ClusterSpec) launcher.Check {
	const name = "bash"
	if err := requireBash(s); err != nil {
		return launcher.Check{Name: name, Detail: err.Error()}
	}
	return launcher.Check{Name: name, OK: true, Detail: "in PATH; Ray starts each driver and worker through it"}
}

func (l *Launcher) checkRay(ctx context.Context, s *spec.ClusterSpec) launcher.Check {
	c := launcher.Check{Name: "Ray"}
	detail, err := rayenv.Check(ctx, l.environment(s, nil))
	if c.OK = err == nil; c.OK {
		c.Detail = detail
		return c
	}
	c.Detail = err.Error()
	return c
}

// checkNodes reports whether this machine has the nodes and GPUs of the file.
func checkNodes(s *spec.ClusterSpec) launcher.Check {
	const name = "nodes"
	if err := fits(s); err != nil {
		return launcher.Check{Name: name, Detail: err.Error()}
	}
	return launcher.Check{Name: name, OK: true, Detail: "this machine can have those of the file"}
}

// fits refuses more nodes, GPUs or object stores than this machine has, and a driver that fits on no node.
func fits(s *spec.ClusterSpec) error {
	this := thisMachine()
	if err := checkNodeCount(s, this); err != nil {
		return err
	}
	if err := checkGPUs(s, devices, os.Getenv); err != nil {
		return err
	}
	if err := checkStores(s, this.Shm); err != nil {
		return err
	}
	return nodePlan{Spec: s, Machine: this}.CheckReservation()
}

func checkWritable(name, dir, variable string) launcher.Check {
	c := launcher.Check{Name: name, Detail: dir, Hint: "set " + variable + " to a directory you may write to"}
	err := room(dir)
	if err != nil {
		c.Detail = err.Error()
	}
	c.OK = err == nil
	return c
}

// leastRun is about what the beginning of a run's directory takes.
const leastRun = 512 << 10

// room returns the error of writing that much into a directory that may have to be made. Nothing stays.
func room(dir string) error {
	for _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir) // it will be made in the nearest one that exists
	}
	f, err := os.CreateTemp(dir, ".rayctl-check-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, leastRun))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

func (l *Launcher) checkDisk() launcher.Check {
	dir := above(l.cacheDir)
	return diskOf(dir, freeSpace(dir), leastDisk)
}

func diskOf(dir string, free, least int64) launcher.Check {
	return atLeast("disk space", dir+" has %s free", free, least, "free some space there")
}

// above is the nearest directory of a path that exists.
func above(dir string) string {
	for !isDir(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return dir
}

// requireRoom refuses to begin with an environment that cannot be made in the cache. One that begins as a copy of another takes little.
func (l *Launcher) requireRoom(o rayenv.Options) error {
	if rayenv.Exists(o) {
		return nil
	}
	const hint = "set XDG_CACHE_HOME to a directory you may write to, or ray.python to a Python that has Ray"
	if err := room(l.cacheDir); err != nil {
		return launcher.Fail(runstate.CodeConfig, err, hint, "no Python environment can be made in %s: %v", l.cacheDir, err)
	}
	if kept, err := os.ReadDir(filepath.Join(l.cacheDir, "envs")); err == nil && len(kept) > 0 {
		return nil
	}
	dir := above(l.cacheDir)
	return firstEnvironment(dir, freeSpace(dir))
}

// firstEnvironment refuses a file system that is too small for the first environment.
func firstEnvironment(dir string, free int64) error {
	if c := diskOf(dir, free, leastInstall); !c.OK {
		return launcher.Fail(runstate.CodeConfig, syscall.ENOSPC, c.Hint+", set XDG_CACHE_HOME to a directory of another file system, or ray.python to a Python that has Ray",
			"no Python environment can be made: %s, and one with Ray takes %.1f GiB", c.Detail, float64(leastInstall)/(1<<30))
	}
	return nil
}

func checkTemp(s *spec.ClusterSpec) launcher.Check {
	dir, err := tempRoot(s)
	if err != nil {
		return launcher.Check{Name: "temporary directory", Detail: err.Error()}
	}
	return checkWritable("temporary directory", dir, "local.tmpDir")
}

func checkShm() launcher.Check {
	if !isDir("/dev/shm") { // Ray keeps objects elsewhere then
		return launcher.Check{Name: "shared memory", OK: true, Detail: "not used here"}
	}
	return atLeast("shared memory", "/dev/shm has %s free", freeSpace("/dev/shm"), leastShm, "make /dev/shm larger; Ray's object store is slow without it (containers: --shm-size)")
}

func checkFiles() launcher.Check {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return launcher.Check{Name: "open files", Detail: err.Error()}
	}
	// Ray raises the soft limit itself.
	return launcher.Check{Name: "open files", OK: limit.Max >= leastFiles, Detail: fmt.Sprintf("at most %d", limit.Max), Hint: "raise the hard limit (ulimit -Hn)"}
}

func atLeast(name, detail string, have, want int64, hint string) launcher.Check {
	return launcher.Check{Name: name, OK: have >= want, Detail: fmt.Sprintf(detail, fmt.Sprintf("%.1f GiB", float64(have)/(1<<30))), Hint: hint}
}
