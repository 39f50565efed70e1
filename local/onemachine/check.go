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
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/local/machine"
	"github.com/rayctl/rayctl/local/rayenv"
)

const (
	leastDisk  = 5 << 30 // an environment with Ray takes half a gibibyte, its installation twice that, and Ray spills to disk
	leastShm   = 1 << 30
	leastFiles = 4096
)

// Check looks at what a cluster on this machine needs. It installs and changes nothing that stays.
func (l *Launcher) Check(ctx context.Context, s *spec.ClusterSpec) []launcher.Check {
	if s == nil {
		s = &spec.ClusterSpec{}
	}
	s = spec.For(s, l.Name())
	return append(l.on.Check(ctx),
		l.checkRay(ctx, s), checkWritable("run directories", l.clusters, "XDG_STATE_HOME"), checkWritable("cache", l.cacheDir, "XDG_CACHE_HOME"),
		checkNodes(s), l.checkDisk(), checkTemp(s), checkShm(), checkFiles(),
	)
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
	this := machine.This()
	if err := machine.CheckNodes(s, this); err != nil {
		return err
	}
	if err := machine.CheckGPUs(s, machine.Devices, os.Getenv); err != nil {
		return err
	}
	if err := machine.CheckStores(s, this.Shm); err != nil {
		return err
	}
	return machine.Plan{Spec: s, Machine: this}.CheckReservation()
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
	dir := l.cacheDir
	for !machine.IsDir(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	return atLeast("disk space", dir+" has %s free", machine.FreeSpace(dir), leastDisk, "free some space there")
}

func checkTemp(s *spec.ClusterSpec) launcher.Check {
	dir, err := machine.TempRoot(s)
	if err != nil {
		return launcher.Check{Name: "temporary directory", Detail: err.Error()}
	}
	return checkWritable("temporary directory", dir, "local.tmpDir")
}

func checkShm() launcher.Check {
	if !machine.IsDir("/dev/shm") { // Ray keeps objects elsewhere then
		return launcher.Check{Name: "shared memory", OK: true, Detail: "not used here"}
	}
	return atLeast("shared memory", "/dev/shm has %s free", machine.FreeSpace("/dev/shm"), leastShm, "make /dev/shm larger; Ray's object store is slow without it (containers: --shm-size)")
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
