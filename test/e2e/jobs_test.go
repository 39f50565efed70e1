package e2e

import (
	"archive/zip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/local/proc"
)

// submitRepository submits from a git work tree, of which the job gets what git tracks.
func submitRepository(t *testing.T, u *user) {
	t.Helper()
	for name, content := range map[string]string{".gitignore": "*.ckpt\ndata/\n", "kept.ckpt": "", "x.ckpt": "", "y.ckpt": "", "data/z": "12345", "main.py": "import os; print(sorted(os.listdir()))"} {
		u.write("repository/"+name, content)
	}
	for _, args := range []string{"init -q", "add -f kept.ckpt"} {
		c := exec.CommandContext(t.Context(), "git", strings.Fields(args)...)
		c.Dir = filepath.Join(u.dir, "repository")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
	}
	r := u.want(0, "submit", "shared", "--working-dir", "repository", "--", "python", "main.py")
	if want := "['.gitignore', 'kept.ckpt', 'main.py']\n"; r.out != want {
		t.Errorf("the job has %q, want %q", r.out, want)
	}
	contains(t, "what was sent", r.err, "sent 3 files, 51 B; left out by .gitignore: data/ (5 B), *.ckpt (2)\n")
}

// TestSubmit runs jobs on an existing cluster.
func TestSubmit(t *testing.T) {
	u := sharedCluster(t)
	u.write("wd/main.py", printArguments)
	args := append([]string{"submit", "shared", "--working-dir", "wd", "--env", "CODE=5", "--submission-id", "hostile", "--", "python", "main.py"}, hostile...)
	for range 2 { // the second time it is the same job
		r := u.want(5, args...)
		if d := cmp.Diff(strings.Join(hostile, "\x00"), r.out); d != "" {
			t.Error(d)
		}
	}
	contains(t, "the refusal", u.want(65, "submit", "shared", "--submission-id", "hostile", "--", "true").err, "hostile")
	submitRepository(t, u)
	u.want(0, "submit", "shared", "-q", "--", "true")
	killed := u.want(128+9, "submit", "shared", "-o", "json", "--", "sh", "-c", "echo hello; kill -9 $$")
	contains(t, "what is said of a driver that a signal ended", killed.err, "hello\n", "the driver was ended by SIGKILL, exit code 137")
	if job := decode[map[string]any](t, killed.out); job["status"] != "FAILED" {
		t.Errorf("%+v", job)
	}
	if got := u.want(0, "logs", "shared", "hostile").out; got != strings.Join(hostile, "\x00") {
		t.Errorf("logs: %q", got)
	}
	contains(t, "the table of jobs", u.want(0, "jobs", "shared").out, "  sh -c 'echo hello; kill -9 $$'\n")
	jobs := decode[[]map[string]any](t, u.want(0, "jobs", "shared", "-o", "json").out)
	if len(jobs) < 3 || jobs[0]["status"] != "FAILED" || jobs[0]["driver_exit_code"] != 137.0 {
		t.Errorf("jobs: %+v", jobs)
	}
	const cause = "FileNotFoundError: [Errno 2] No such file or directory: '/no/such.txt'" // in the log of Ray's agent; Ray's API returns "maybe there are some network problems"
	broken := u.want(runstate.CodeStartFailed, "submit", "shared", "--submission-id", "broken", "--runtime-env-json", `{"pip": ["-r /no/such.txt"]}`, "--", "true")
	contains(t, "a runtime environment that cannot be made", broken.err, "job broken failed: the driver did not start: "+cause)
	contains(t, "what Ray wrote about it", broken.out, "The end of Ray's runtime_env_agent.err on node ", cause)
}

// whereabouts prints where the driver, a task and an actor run, which cluster it is, and whether SLURM_* variables are those of a start by srun. The task and the driver leave results.
const whereabouts = `import os, ray
ray.init(log_to_driver=False, logging_level="ERROR")
@ray.remote
def task():
    with open("from-task", "w") as f: f.write("task")
    return os.getcwd()
@ray.remote
class Actor:
    def where(self): return os.getcwd()
with open(os.path.join(os.environ["RAYCTL_OUTPUT_DIR"], "result"), "w") as f: f.write("result")
print(os.getcwd(), ray.get(task.remote()), ray.get(Actor.remote().where.remote()), os.environ["RAYCTL_RUN"], sep="|")
print(*sorted(name for name in os.environ if name.startswith("SLURM_")))
`

// TestOneDirectory: a job on a cluster that was made elsewhere runs in the directory of submit with its tasks and actors, and what it leaves in the cluster's output directory
// can be copied. The directory of a submit that the node does not have is noted.
func TestOneDirectory(t *testing.T) {
	u := sharedCluster(t)
	u.dir = filepath.Join(u.dir, "it's $HOME 100%24")
	u.write("where.py", whereabouts)
	r := u.want(0, "submit", "shared", "--submission-id", "where", "--", "python", "where.py")
	if want := u.dir + "|" + u.dir + "|" + u.dir + "|shared\n\n"; r.out != want {
		t.Errorf("printed %q, want %q", r.out, want)
	}
	if text := u.read("from-task"); text != "task" {
		t.Errorf("a task's relative path: %q", text)
	}
	contains(t, "the receipt", r.err, "where succeeded\n  time    ", "\n  log     `rayctl logs -c shared where`\n  output  /")
	u.want(0, "cp", "shared:", "results")
	if text := u.read("results/result"); text != "result" {
		t.Errorf("the results: %q", text)
	}
}

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

// TestAddress uses the cluster's dashboard by its address.
func TestAddress(t *testing.T) {
	u := sharedCluster(t)
	vars := decode[map[string]string](t, u.want(0, "env", "shared", "-o", "json").out)
	address := vars["RAY_API_SERVER_ADDRESS"]
	home := t.TempDir()
	u.env = []string{"HOME=" + home}
	contains(t, "without a token", u.want(runstate.CodePermission, "jobs", "--address", address).err, "token")
	u.env = []string{"RAY_AUTH_TOKEN=wrong"}
	u.want(runstate.CodePermission, "jobs", "--address", address)
	u.env = []string{"RAY_AUTH_TOKEN_PATH=" + vars["RAY_AUTH_TOKEN_PATH"]}
	if got := u.want(0, "submit", "--address", address, "--", "echo", "hello").out; got != "hello\n" {
		t.Errorf("output %q", got)
	}
	u.env = []string{"RAY_AUTH_TOKEN_PATH=/nosuch"}
	u.want(runstate.CodeConfig, "jobs", "--address", address)
	u.env = []string{"RAY_AUTH_TOKEN_PATH=/nosuch", "RAY_API_SERVER_ADDRESS=" + address} // of a cluster of ours: reached as one
	contains(t, "the note", u.want(0, "jobs").err, "local cluster shared")
	token, err := os.ReadFile(vars["RAY_AUTH_TOKEN_PATH"])
	if err != nil {
		t.Fatal(err)
	}
	u.env = []string{"HOME=" + home, "RAY_API_SERVER_ADDRESS=" + address, `RAY_JOB_HEADERS={"authorization": "Bearer ` + strings.TrimSpace(string(token)) + `"}`}
	contains(t, "the note", u.want(0, "jobs", "--verify", "true").err, "the dashboard of RAY_API_SERVER_ADDRESS")
}

// TestRayJobsFlags: the flags of `ray job submit` that describe the runtime environment, and the verbs on one job.
func TestRayJobsFlags(t *testing.T) {
	u := sharedCluster(t)
	u.write("code/main.py", "import os, mod, other\nprint(mod.NAME, other.NAME, os.environ['SEED'], sorted(os.listdir()))\n")
	u.write("code/large.bin", "x")
	u.write("mod/__init__.py", "NAME = 'mod'\n")
	u.write("other/__init__.py", "NAME = 'other'\n")
	u.write("env/env.yaml", "working_dir: code\nenv_vars: {SEED: 7}\npy_modules: [mod]\n")
	const printed = "mod other 7 ['main.py']\n"
	flags := []string{"--py-modules", "other", "--", "python", "main.py"}
	if got := u.want(0, append([]string{"submit", "shared", "--runtime-env", "env/env.yaml", "--excludes", "*.bin", "--submission-id", "flags"}, flags...)...).out; got != printed {
		t.Errorf("--runtime-env: %q", got)
	}
	contains(t, "the job", u.want(0, "jobs", "flags", "-c", "shared").out, "flags", "SUCCEEDED", "python main.py")
	contains(t, "waited for", u.want(0, "wait", "shared", "flags").err, "job flags is SUCCEEDED")
	archive, err := os.Create(filepath.Join(u.dir, "code.zip"))
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(archive)
	main, err := w.Create("main.py")
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(main, "import os, mod, other\nprint(mod.NAME, other.NAME, os.environ['SEED'], os.listdir())\n")
	if err := errors.Join(w.Close(), archive.Close()); err != nil {
		t.Fatal(err)
	}
	args := []string{"submit", "shared", "--working-dir", "code.zip", "--runtime-env-json", `{"working_dir": "none", "env_vars": {"SEED": "7"}, "py_modules": ["mod"]}`}
	if got := u.want(0, append(args, flags...)...).out; got != printed {
		t.Errorf("a .zip as working directory: %q", got)
	}
	// Some time after its end: on a busy machine Ray may write a job that has just ended into its list again later than delete looks for that.
	u.want(0, "jobs", "delete", "-c", "shared", "flags")
	u.want(65, "jobs", "delete", "-c", "shared", "flags")
}
