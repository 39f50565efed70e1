package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
	stopBuilding(t, u)
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
	stopUnstarted(t, u, "waits", "a node with 2 CPUs free, or its environment", func() { u.want(0, "stop", "shared", "holds1", "holds2") })
	contains(t, "a job that fits nowhere", u.want(runstate.CodeSpec, "submit", "shared", "--entrypoint-num-cpus", "3", "--", "true").err,
		"job.entrypointCpus: the driver reserves 3 CPUs on one node, and no node of the cluster has more than 2 CPUs")
	contains(t, "a run that fits nowhere", u.want(runstate.CodeSpec, "run", "--dry-run", "--cpus-per-worker", "2", "--workers", "1", "--set", "job.entrypointGpus=1", "--", "true").err,
		"job.entrypointGpus: the driver reserves 1 GPU on one node, and no node of the cluster has more than 0 GPUs")
}

// heldBackend builds a package without dependencies, once somebody has opened the pipe for writing.
const heldBackend = `import os, zipfile
HERE = os.path.dirname(os.path.abspath(__file__))
def get_requires_for_build_wheel(config_settings=None):
    with open("PIPE") as held:
        held.read()
    return []
def build_wheel(directory, config_settings=None, metadata_directory=None):
    with zipfile.ZipFile(os.path.join(directory, "held-1-py3-none-any.whl"), "w") as wheel:
        wheel.writestr("held.py", "")
        wheel.writestr("held-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: held\nVersion: 1\n")
        wheel.writestr("held-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: held\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr("held-1.dist-info/RECORD", "")
    return "held-1-py3-none-any.whl"
`

// stopBuilding: the same of a job for which pip builds a package. It needs no network.
func stopBuilding(t *testing.T, u *user) {
	t.Helper()
	pipe := filepath.Join(u.dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	u.write("held/pyproject.toml", "[project]\nname = \"held\"\nversion = \"1\"\n[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = [\".\"]\n")
	u.write("held/backend.py", strings.Replace(heldBackend, "PIPE", pipe, 1))
	u.want(0, "submit", "shared", "--submission-id", "builds", "-d", "--pip", filepath.Join(u.dir, "held"), "--", "python", "-c", patient)
	opened := make(chan *os.File, 1)
	go func() { // opened once pip has called the backend
		writer, _ := os.OpenFile(pipe, os.O_WRONLY, 0)
		opened <- writer
	}()
	var building *os.File
	select {
	case building = <-opened:
	case <-time.After(limit):
		t.Fatalf("pip does not build: %s", u.do("jobs", "shared", "builds").out)
	}
	defer building.Close()
	stopUnstarted(t, u, "builds", "its environment, with its packages and files", func() { building.Close() })
}

// stopUnstarted stops a PENDING job of the shared cluster that waits until start is called: nobody who asks waits for that in silence.
func stopUnstarted(t *testing.T, u *user, id, waits string, start func()) {
	t.Helper()
	contains(t, "status", u.want(0, "status", "shared").out, id+" PENDING", "waits for ", " "+waits+"\n")
	contains(t, "status -o json", u.want(0, "status", "shared", "-o", "json").out, strconv.Quote(waits))
	following := u.start(false, "logs", "shared", id, "-f")
	following.until("PENDING: ", 1)
	following.cmd.Process.Signal(syscall.SIGINT)
	if code := following.code(); code != runstate.CodeInterrupted {
		t.Errorf("logs -f of a job that waits: exit code %d, %s", code, following)
	}
	contains(t, "logs -f", following.String(), "stopped watching job "+id+", which is PENDING and waits for: "+waits)
	said := "job " + id + " is PENDING: it waits for " + waits + ". Ray ends the job when it starts the job; before that `rayctl down shared` ends the job with its cluster"
	contains(t, "stop --no-wait", u.want(0, "stop", "shared", id, "--no-wait").err, said)
	stop := u.start(false, "stop", "shared", id)
	stop.until(said, 1)
	contains(t, "jobs", u.want(0, "jobs", "shared", id).out, "PENDING")
	start()
	u.want(runstate.CodeInterrupted, "logs", "shared", id, "-f")            // until it has ended
	if code := stop.code(); code != 0 && code != runstate.CodeUnreachable { // where this takes longer than stop waits, see TestStopUnstarted
		t.Errorf("stop of a job that starts: exit code %d, %s", code, stop)
	}
	contains(t, "once it has started", u.want(0, "stop", "shared", id).err, "job "+id+" is STOPPED")
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
