//go:build linux

package chaos

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rayctl/rayctl/test/kubetest/bed"
)

// hang is how long a daemon hangs: less than what Ray, Slurm and Kubernetes take for a lost node (Ray: 5 checks of 3 s, RAY_health_check_failure_threshold; the bed's
// SlurmdTimeout: 30 s).
const hang = 10 * time.Second

// daemonFaults concern the daemons that stand around a run: they hang for a while, they have no descriptors left, the driver's log is truncated or replaced. The run
// goes on as if nothing had been. keeper is a part of the keeper's command line.
func daemonFaults(keeper string) map[string]fault {
	return map[string]fault{
		"GCS frozen":          {strike: freeze(hang, "gcs_server")},
		"raylet frozen":       {strike: freeze(hang, "/raylet/raylet ")},
		"dashboard frozen":    {strike: freeze(hang, "dashboard/dashboard.py", "ray-dashboard")},
		"keeper frozen":       {strike: freeze(hang, keeper)},
		"driver frozen":       {strike: freeze(hang, "driver.py /")},
		"keeper has no files": {refuses: true, strike: func(r *runningCase) bool { return starved(r.processes(), command(keeper)) }},
		"dashboard has no files": {strike: func(r *runningCase) bool {
			return starved(r.processes(), command("dashboard/dashboard.py", "ray-dashboard"))
		}},
		"log truncated": {strike: toLog(func(path string) error { return os.Truncate(path, 0) }), gaps: true},
		"log replaced":  {strike: toLog(replace), gaps: true, rest: true},
	}
}

// starved leaves the matching processes no descriptor for some seconds.
func starved(all []process, match func(process) bool) bool {
	before := map[int]unix.Rlimit{}
	for _, p := range all {
		var limit unix.Rlimit
		if match(p) && unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, nil, &limit) == nil && unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 4, Max: limit.Max}, nil) == nil {
			before[p.pid] = limit
		}
	}
	time.Sleep(hang / 2)
	for pid, limit := range before {
		_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil) // it may have ended
	}
	return len(before) > 0
}

// toLog does something to the driver's log, which a process of the run has open.
func toLog(what func(path string) error) func(*runningCase) bool {
	return func(r *runningCase) bool {
		for _, p := range r.processes() {
			dir := filepath.Join("/proc", strconv.Itoa(p.pid))
			files, _ := os.ReadDir(dir + "/fd") // it may have ended
			for _, f := range files {
				path, err := os.Readlink(filepath.Join(dir, "fd", f.Name()))
				if name := filepath.Base(path); err == nil && strings.HasPrefix(name, "job-driver-") && strings.HasSuffix(name, ".log") && !strings.Contains(name, "prepare") {
					return what(filepath.Join(dir, "root", path)) == nil
				}
			}
		}
		return false
	}
}

// replace moves a file away and puts an empty one in its place, as programs that rotate logs do.
func replace(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if err := os.Rename(path, path+".1"); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, info.Mode())
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	if err := f.Chown(int(owner.Uid), int(owner.Gid)); err != nil {
		return err
	}
	return f.Close()
}

// ports are options of Ray's commands that name a port which Ray is going to bind.
var ports = regexp.MustCompile(`--[a-z-]*port[= ](\d+)`)

// thief binds each port that a command line of the run names, on the process's node, as soon as it is seen, until the case ends, and answers nothing.
func thief(r *runningCase) {
	done, thieves := make(chan struct{}), sync.WaitGroup{}
	thieves.Go(func() {
		tried := map[string]bool{}
		var taken []net.Listener
		for {
			for _, p := range r.processes() {
				for _, found := range ports.FindAllStringSubmatch(p.command, -1) {
					network, err := os.Readlink("/proc/" + strconv.Itoa(p.pid) + "/ns/net")
					if err != nil || tried[network+found[1]] {
						continue
					}
					tried[network+found[1]] = true
					if l, err := listenBeside(p.pid, "127.0.0.1:"+found[1]); err == nil {
						taken = append(taken, l)
						r.mu.Lock()
						r.stolen++
						r.mu.Unlock()
					}
				}
			}
			select {
			case <-done:
				for _, l := range taken {
					_ = l.Close()
				}
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	})
	r.t.Cleanup(func() {
		close(done)
		thieves.Wait()
	})
}

// listenBeside listens in the network namespace of a process: a node of the Slurm bed has one of its own.
func listenBeside(pid int, address string) (l net.Listener, err error) {
	there, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/net")
	if err != nil {
		return nil, err
	}
	defer there.Close()
	here, err := os.Open("/proc/self/ns/net")
	if err != nil {
		return nil, err
	}
	defer here.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err = unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
			return
		}
		defer func() { // a thread that cannot go back stays locked, and nothing else runs on it
			if unix.Setns(int(here.Fd()), unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread()
			}
		}()
		stealing := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
		}}
		l, err = stealing.Listen(context.Background(), "tcp", address)
	}()
	<-done
	return l, err
}

// portsStolen is a fault that had its effect if a port was taken.
var portsStolen = fault{before: thief, strike: func(r *runningCase) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stolen > 0
}}

func (w *localWorld) daemonFaults() map[string]fault {
	return merge(daemonFaults("keeper.pyz keeper"), map[string]fault{
		"supervisor frozen": {strike: freeze(hang, "keeper.pyz node")},
		"ports stolen":      portsStolen,
	})
}

func (w *slurmWorld) daemonFaults() map[string]fault {
	return merge(daemonFaults("keeper.pyz slurm-start"), map[string]fault{
		"supervisor frozen":       {strike: freeze(hang, "keeper.pyz node")},
		"ports stolen":            portsStolen,
		"srun frozen":             {strike: freeze(hang, "srun ")},
		"slurmctld frozen":        {strike: w.controllerHangs},
		"slurmd frozen":           {strike: w.slurmdHangs},
		"slurmstepd frozen":       {strike: w.stepsHang},
		"controller starts again": {strike: w.controllerStartsAgain},
	})
}

// controllerHangs: slurmctld answers nobody for some time.
func (w *slurmWorld) controllerHangs(*runningCase) bool {
	return frozen(table(), func(p process) bool {
		return strings.Contains(p.command, "slurmctld") && strings.Contains(p.command, w.Conf())
	}, hang)
}

// controllerStartsAgain: it is gone for a moment only, as at an upgrade.
func (w *slurmWorld) controllerStartsAgain(*runningCase) bool {
	return w.StopController() == nil && w.StartController(context.Background()) == nil
}

// slurmdHangs: the daemon of the head's node.
func (w *slurmWorld) slurmdHangs(r *runningCase) bool {
	node, err := strconv.Atoi(strings.TrimPrefix(w.headHost(r), "node"))
	if err != nil {
		return false
	}
	resume, err := w.HangSlurmd(context.Background(), node)
	time.Sleep(hang)
	return err == nil && resume() == nil
}

// stepsHang: slurmstepd of all steps of the job on all nodes.
func (w *slurmWorld) stepsHang(r *runningCase) bool {
	job := w.job(r.d.run())
	var all []process
	for i := range 4 {
		found, err := w.Processes("node" + strconv.Itoa(i+1))
		if err != nil {
			return false
		}
		for _, p := range found {
			all = append(all, process{pid: p.PID, command: p.Command})
		}
	}
	return frozen(all, func(p process) bool { return job != "" && strings.HasPrefix(p.command, "slurmstepd: ["+job+".") }, hang)
}

func (w *kubeWorld) daemonFaults() map[string]fault {
	out := daemonFaults(keeperInPod)
	for _, part := range []bed.Part{bed.Controllers, bed.Kubelet} {
		out[string(part)+" killed"] = fault{strike: w.away(part, hang)}
	}
	for _, part := range []bed.Part{bed.APIServer, bed.Controllers, bed.Scheduler, bed.Kubelet, bed.DNS, bed.Operator, bed.VolcanoScheduler} {
		out[string(part)+" frozen"] = fault{strike: func(*runningCase) bool {
			resume, err := w.Hang(part)
			time.Sleep(hang)
			return err == nil && resume() == nil
		}}
	}
	return out
}
