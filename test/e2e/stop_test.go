package e2e

import (
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// TestStop stops a job, and Ctrl-C of submit does not.
func TestStop(t *testing.T) {
	u := sharedCluster(t)
	s := u.start(false, "submit", "shared", "--submission-id", "long", "--", "python", "-c", patient)
	s.until("ready", 1)
	s.cmd.Process.Signal(syscall.SIGINT)
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
	contains(t, "the note", s.String(), "rayctl stop -c shared long")
	following := u.start(false, "logs", "shared", "long", "-f", "--tail", "1")
	following.until("ready", 1)
	u.want(0, "stop", "shared")
	if code := following.code(); code != runstate.CodeInterrupted {
		t.Errorf("logs -f of a stopped job: exit code %d, %q", code, following)
	}
	contains(t, "jobs", u.want(0, "jobs", "shared").out, "long", "STOPPED")
	const deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(1000)"
	u.start(false, "submit", "shared", "--submission-id", "deaf", "--", "python", "-c", deaf).until("ready", 1)
	contains(t, "what is said of a driver that was killed", u.want(0, "stop", "shared", "deaf").err, "job deaf is STOPPED: its driver had not ended when its grace", "Ray killed it")
	u.want(0, "stop", "-c", "shared", "long")
	u.want(65, "stop", "-c", "shared", "nosuch")
	stopPending(t, u)
}

// stopPending: a job that waits for resources cannot be stopped by Ray before it starts; stop says so, and waits until Ray has started and stopped it. One that
// fits on no node is refused.
func stopPending(t *testing.T, u *user) {
	t.Helper()
	two := []string{"--entrypoint-num-cpus", "2"} // all of one of the two workers
	for _, id := range []string{"holds1", "holds2"} {
		u.start(false, append(append([]string{"submit", "shared", "--submission-id", id}, two...), "--", "python", "-c", patient)...).until("ready", 1)
	}
	u.want(0, append(append([]string{"submit", "shared", "--submission-id", "waits", "-d"}, two...), "--", "python", "-c", patient)...)
	stop := u.start(false, "stop", "shared", "waits")
	stop.until("job waits waits for resources or for its environment; Ray stops it when it starts it", 1)
	contains(t, "jobs", u.want(0, "jobs", "shared").out, "PENDING")
	u.want(0, "stop", "shared", "holds1", "holds2")
	u.want(runstate.CodeInterrupted, "logs", "shared", "waits", "-f")       // until it has ended
	if code := stop.code(); code != 0 && code != runstate.CodeUnreachable { // where this takes longer than stop waits, see TestStopUnstarted
		t.Errorf("stop of a job that starts: exit code %d, %s", code, stop)
	}
	contains(t, "once it has started", u.want(0, "stop", "shared", "waits").err, "job waits is STOPPED")
	contains(t, "a job that fits nowhere", u.want(runstate.CodeSpec, "submit", "shared", "--entrypoint-num-cpus", "3", "--", "true").err,
		"job.entrypointCpus: the driver reserves 3 CPUs on one node, and no node of the cluster has more than 2 CPUs")
	contains(t, "a run that fits nowhere", u.want(runstate.CodeSpec, "run", "--dry-run", "--cpus-per-worker", "2", "--workers", "1", "--set", "job.entrypointGpus=1", "--", "true").err,
		"job.entrypointGpus: the driver reserves 1 GPU on one node, and no node of the cluster has more than 0 GPUs")
}

// TestStopRun: of a run that loses a worker, which its supervisor starts again, and then supervisor and worker, its client and `status` report that while the driver continues. Of a run whose driver is deaf to SIGTERM, stop and the run both
// report that it was killed; the run's cluster ends meanwhile.
func TestStopRun(t *testing.T) {
	u := newUser(t)
	const deaf = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready', flush=True)\ntime.sleep(1000)"
	run := u.start(false, "run", "--name", "deafrun", "--workers", "2", "--cpus-per-worker", "1", "--grace", "1s", "--", "python", "-c", deaf)
	run.until("ready", 1)
	supervisor := decode[launcher.Status](t, u.want(0, "status", "deafrun", "-o", "json").out).Nodes[1].PID
	killRaylet(t, supervisor)
	run.until("deafrun: node worker-1 was lost and started again: ", 1)
	if err := syscall.Kill(supervisor, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	run.until("; the driver continues\n", 1)
	contains(t, "the client", run.String(), "deafrun: node worker-1 is lost: ")
	s := decode[launcher.Status](t, u.want(0, "status", "deafrun", "-o", "json").out)
	if s.Nodes[1].State != runstate.NodeDead || s.Job.State != runstate.JobRunning {
		t.Errorf("nodes %+v, job %+v", s.Nodes, s.Job)
	}
	contains(t, "stop", u.want(0, "stop", "deafrun").err, "Ray killed it")
	if code := run.code(); code != runstate.CodeInterrupted {
		t.Errorf("run: exit code %d", code)
	}
	contains(t, "the run", run.String(), "its driver had not ended when its grace was over, and Ray killed it")
	if n := strings.Count(run.String(), " is lost: "); n != 1 {
		t.Errorf("%d nodes are reported lost: %s", n, run)
	}
}

// killRaylet kills the raylet of a node of this machine, whose supervisor has this pid.
func killRaylet(t *testing.T, supervisor int) {
	t.Helper()
	table, err := proc.Table()
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, p := range table {
		parents[p.PID] = p.Parent
	}
	for _, p := range table {
		program, _, _ := strings.Cut(proc.CommandLine(p), " ")
		if !strings.HasSuffix(program, "/raylet/raylet") {
			continue
		}
		for pid := p.PID; pid > 1; pid = parents[pid] {
			if pid == supervisor {
				if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				return
			}
		}
	}
	t.Fatalf("no raylet below process %d", supervisor)
}
