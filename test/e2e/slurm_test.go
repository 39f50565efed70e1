//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// TestGRPOOnSlurm is `make demo` with --launcher slurm: the same file, with each worker on any node. How far it learns is TestGRPO's.
func TestGRPOOnSlurm(t *testing.T) {
	// The local launcher makes the environment, once; nodes see it like one on a shared file system.
	python := strings.TrimSpace(exampleUser(t).runExample("run", "-f", example(t, "grpo", "rayctl.yaml"), "--set", "workers.rollout.replicas=0",
		"--", "python", "-c", "import sys; print(sys.executable)").out)
	s := newSite(t, slurmtest.Options{Nodes: 4}, filepath.Dir(filepath.Dir(python)))
	r := s.rayctl("run", "-f", example(t, "grpo", "rayctl.yaml"), "--launcher", "slurm", "--set", "ray.python="+python,
		"--fetch", filepath.Join(s.Home(""), "fetched"), "--", "sh", "-c", `python grpo.py --goal 0.6 --out "$RAYCTL_OUTPUT_DIR"`)
	learned(t, r, 0.6, 5)
	if files, err := os.ReadDir(filepath.Join(s.Home(""), "fetched")); err != nil || len(files) == 0 {
		t.Errorf("what was fetched at the end: %v, %v\n%s", files, err, r.err)
	}
	s.RequireClean(t)
}

func newSite(t *testing.T, o slurmtest.Options, binds ...string) *site {
	t.Helper()
	o.Binds = slices.Concat(binds, []string{home.dir, example(t)})
	return &site{Cluster: slurmtest.Start(t, o), t: t}
}

// site is a Slurm cluster with a user who runs rayctl next to its controller, as on a login node.
type site struct {
	*slurmtest.Cluster
	t    *testing.T
	path string // PATH=..., if it is not the usual one
}

// rayctl runs a command to its end and returns its result.
func (s *site) rayctl(args ...string) result {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), exampleLimit)
	defer cancel()
	c := s.Command(ctx, "", home.rayctl, args...)
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+s.Home("")) // like a login, for files shared by a user's rayctls
	if s.path != "" {
		c.Env = append(c.Env, s.path)
	}
	var out, stderr bytes.Buffer
	c.Stdout, c.Stderr = &out, &stderr
	if err := c.Run(); err != nil {
		s.t.Fatalf("rayctl %q: %v\nstdout: %s\nstderr: %s\n%s", args, err, tail(out.String()), tail(stderr.String()), s.story())
	}
	return result{out: out.String(), err: stderr.String()}
}

// story is the log of keepers and batch scripts.
func (s *site) story() string {
	var b strings.Builder
	for _, pattern := range []string{"slurm.out", "*/keeper.log", "*/nodes/*/start.log"} {
		names, _ := filepath.Glob(filepath.Join(s.Home(""), ".rayctl", "runs", "*", pattern))
		for _, name := range names {
			text, _ := os.ReadFile(name)
			b.WriteString("--- " + name + "\n" + tail(string(text)) + "\n")
		}
	}
	return b.String()
}

// TestSlurmExamples runs every examples/slurm-*.yaml on one site.
func TestSlurmExamples(t *testing.T) {
	pace.Parallel(t)
	python := raytest.Env(t, raytest.Ray260)
	s := newSite(t, slurmtest.Options{
		Nodes: 4, GPUs: []slurmtest.GPU{{Type: "h100", Count: 8}}, LoginSSH: true, TwoFactors: os.Getuid() == 0,
		Partitions: []slurmtest.Partition{{Name: "gpu", Nodes: "node[1-3]", Default: true}, {Name: "cpu", Nodes: "node4"}},
		Settings:   map[string]string{"MaxArraySize": "1"},
	}, filepath.Dir(filepath.Dir(python)))
	s.addLogin1()
	interpreter, err := filepath.EvalSymlinks(python)
	if err != nil {
		t.Fatal(err)
	}
	image, path := s.AddContainers(t, filepath.Dir(filepath.Dir(python)), filepath.Dir(filepath.Dir(interpreter)))
	s.path = "PATH=" + path
	models := s.Dir + "/shared/models"
	if err := os.Mkdir(models, 0o755); err != nil {
		t.Fatal(err)
	}
	const all = "0,1,2,3,4,5,6,7"
	team := s.team()
	examples := map[string]slurmExample{
		"slurm-gpu-gang.yaml": {[]string{"--name", "told", "--set", "job.shareDir=" + team}, `trainer-0 on node\d: 16 CPUs, GPUs ` + all + `\ntrainer-1 on node\d: 16 CPUs, GPUs ` + all,
			filepath.Join(team, "told")},
		"slurm-unlike-groups.yaml": {nil, `reward-0 on node4: 2 CPUs, GPUs none\nrollout-0 on node\d: 4 CPUs, GPUs (\d,){3}\d\n` +
			`rollout-1 on node\d: 4 CPUs, GPUs (\d,){3}\d\ntrainer-0 on node\d: 8 CPUs, GPUs ` + all, ""},
		"slurm-containers.yaml": {
			[]string{"--set", "image=" + image, "--set", "mounts=[{mountPath: /models, readOnly: true, source: {slurm: " + models + "}}]"},
			`worker-0 on node\d: 2 CPUs, GPUs \d\nworker-1 on node\d: 2 CPUs, GPUs \d`, ""},
		"slurm-early-head.yaml": {nil, `==> job.prepare <==\nweights are loaded here\n==> driver <==\nhead-0 on node4: 0 CPUs, GPUs none\ntrainer-0 on node\d: 8 CPUs, GPUs ` + all +
			`\ntrainer-1 on node\d: 8 CPUs, GPUs ` + all, ""},
		"slurm-elastic.yaml": {nil, `(?s).*` + elasticLines, ""},
		"slurm-ssh.yaml":     {nil, `worker-0 on node\d: 2 CPUs, GPUs none\nworker-1 on node\d: 2 CPUs, GPUs none`, ""},
	}
	listed, err := os.ReadFile(example(t, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if id, err := s.Submit(t.Context(), "true", "--array=0,1"); err == nil { // what slurm-elastic.yaml's nodes are elsewhere
		t.Errorf("this site is to refuse job arrays, and has made %s", id)
	}
	files, _ := filepath.Glob(example(t, "slurm-*.yaml"))
	for _, file := range files {
		name := filepath.Base(file)
		contains(t, "examples/README.md", string(listed), name)
		e, known := examples[name]
		if !known {
			t.Errorf("%s is not run by any test", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			s := *s
			s.t = t
			r := s.rayctl(append([]string{"run", "-f", file, "--set", "ray.python=" + python}, e.args...)...)
			out := regexp.MustCompile(`(?m)^\x1b\[33m\(raylet\).*\n`).ReplaceAllString(r.out, "") // the GCS warns of tasks that wait for a node, also when that has come
			if !regexp.MustCompile(`\A` + e.want + `\n\z`).MatchString(out) {
				t.Errorf("printed %q, want %q\n%s", r.out, e.want, r.err)
			}
			contains(t, "the receipt", r.err, "succeeded")
			if e.shared != "" {
				s.isShared(e.shared, r.out)
			}
		})
	}
	t.Run("README", func(t *testing.T) { s := *s; s.t = t; s.readme(python) })
	t.Run("allocation", func(t *testing.T) { s := *s; s.t = t; s.inAllocation(t, python, image) })
	t.Run("serve", func(t *testing.T) { s := *s; s.t = t; s.serves(python) })
	t.Run("password", func(t *testing.T) { s := *s; s.t = t; s.logsIn(python) })
	if s.Options.TwoFactors {
		t.Run("TwoFactors", func(t *testing.T) { s := *s; s.t = t; s.twoFactors(python) })
	}
	s.endMasters()
	s.RequireClean(t)
}

// readme repeats the session of README.md.
func (s *site) readme(python string) {
	s.t.Helper()
	dir := filepath.Join(s.Home(""), "demo")
	if err := os.Mkdir(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	shown := session(s.t, "On Slurm")
	shown.Write(func(name, text string) {
		text = strings.ReplaceAll(text, "/shared/venv", filepath.Dir(filepath.Dir(python)))
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	})
	for _, step := range shown.Steps {
		ctx, cancel := context.WithTimeout(s.t.Context(), exampleLimit)
		defer cancel()
		c := s.Command(ctx, "", "env", "-C", dir, "sh", "-c", `PATH=$0:$PATH; `+step.Command, filepath.Dir(home.rayctl))
		c.Env = append(c.Env, "XDG_RUNTIME_DIR="+s.Home(""))
		out, err := c.CombinedOutput()
		if err != nil {
			s.t.Fatalf("%s: %v: %s\n%s", step.Command, err, tail(string(out)), s.story())
		}
		if differs := step.Differs(string(out)); differs != "" {
			s.t.Error(differs)
		}
	}
}

// addLogin1 configures a login node as login1 for the user's ssh.
func (s *site) addLogin1() {
	s.t.Helper()
	config := "Host login1\n  HostName login\n  HostKeyAlias login\n  IdentityFile " + s.Login.Key + "\n  UserKnownHostsFile " + s.Login.KnownHosts + "\n"
	dir := filepath.Join(s.Home(""), ".ssh")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// team is a directory of the shared file system, of a group that the user is in, as docs/sharing.md makes one for job.shareDir.
func (s *site) team() string {
	s.t.Helper()
	dir := filepath.Join(s.Dir, "shared", "team")
	group := os.Getgid()
	if os.Getuid() == 0 {
		group = teamID
	}
	for _, err := range []error{os.Mkdir(dir, 0o700), os.Chown(dir, -1, group), os.Chmod(dir, 0o2770)} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	return dir
}

// slurmExample is an example's further arguments and site values, and its expected output.
type slurmExample struct {
	args   []string
	want   string // a regular expression
	shared string // the copies of the run for a group
}

// isShared expects that the group of the directory above, and nobody else, may read how a run has ended and what it has printed.
func (s *site) isShared(shared, printed string) {
	s.t.Helper()
	contains(s.t, "a shared run", s.rayctl("status", shared).out, "Ended", "the driver succeeded")
	if out := s.rayctl("logs", shared).out; out != printed {
		s.t.Errorf("the shared output is %q, want %q", out, printed)
	}
	above, err := os.Stat(filepath.Dir(shared))
	if err != nil {
		s.t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{shared: 0o750, filepath.Join(shared, "result.json"): 0o640, filepath.Join(shared, "driver.log"): 0o640} {
		info, err := os.Stat(path)
		if err != nil {
			s.t.Fatal(err)
		}
		if info.Mode().Perm() != mode || info.Sys().(*syscall.Stat_t).Gid != above.Sys().(*syscall.Stat_t).Gid {
			s.t.Errorf("%s is %v", path, info.Mode())
		}
	}
}

// inAllocation: clusters are steps of an allocation that stays its owner's, one after the other, whatever ends them.
func (s *site) inAllocation(t *testing.T, python, image string) {
	a := s.salloc(python)
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"Refused", a.refusesHere}, {"TwoNodes", func(t *testing.T) { a.twoNodes(t, image) }}, {"ClientKilled", a.clientKilled}, {"Script", a.limitInScript}, {"NewJob", a.newJob},
		{"Interrupted", a.interruptedHere}, {"Down", a.downHere}, {"KeeperKilled", a.keeperKilled},
	} {
		if !t.Run(part.name, func(t *testing.T) { a.t = t; part.test(t) }) {
			a.endAll(t)
		}
	}
	t.Run("AllocationEnds", func(t *testing.T) { a.t = t; a.allocationEnds(t) })
}

// endAll ends the clusters that a failed test has left in the allocation: the next tests look for what they leave themselves.
func (a *allocation) endAll(t *testing.T) {
	t.Helper()
	a.t = t
	out, _ := a.sh(home.rayctl + " ls --launcher slurm -o name")
	for _, name := range strings.Fields(out) {
		if out, code := a.sh(home.rayctl + " down --launcher slurm --now " + name); code != 0 {
			t.Logf("down %s: code %d, %s", name, code, out)
		}
	}
}

func (s *site) salloc(python string) *allocation {
	s.t.Helper()
	a := &allocation{site: s, dir: filepath.Join(s.Dir, "shared", "current"), python: python, ended: make(chan error, 1)}
	if err := os.Mkdir(a.dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	c := s.Command(context.Background(), "", "salloc", append(twoNodes, "sh")...)
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+s.Home(""), s.path)
	lines, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	a.lines = lines
	go func() { a.ended <- c.Wait() }()
	s.t.Cleanup(func() { lines.Close() })
	a.id, _ = a.sh(`echo $SLURM_JOB_ID; srun --overlap --nodes=1 --ntasks=1 --job-name=mine sleep 3000 >/dev/null 2>&1 &`)
	s.Await(s.t, "the user's own step", func(context.Context) (bool, error) { return strings.Contains(a.steps(), "mine"), nil })
	return a
}

// allocation is a shell in a real allocation of two nodes, as users of salloc have it, with a step of their own.
type allocation struct {
	*site
	id     string
	dir    string // shared by all
	python string
	lines  io.WriteCloser
	ended  chan error
	n      int
}

// twoNodes are salloc's arguments.
var twoNodes = []string{"--quiet", "--partition=gpu", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2", "--mem=8G", "--gres=gpu:h100:2"}

// sh runs a line to its end.
func (a *allocation) sh(line string) (out string, code int) {
	a.t.Helper()
	return a.end(a.begin(line))
}

func (a *allocation) end(file string) (out string, code int) {
	a.t.Helper()
	a.Await(a.t, "the end of a line in the allocation", func(context.Context) (bool, error) {
		_, err := os.Stat(file + ".code")
		return err == nil, nil
	})
	text, _ := os.ReadFile(file + ".code")
	code, _ = strconv.Atoi(strings.TrimSpace(string(text)))
	printed, _ := os.ReadFile(file + ".out")
	said, _ := os.ReadFile(file + ".err")
	return strings.TrimSpace(string(printed) + string(said)), code
}

// begin lets the shell run a line, and returns the name of the files with its output and its code.
func (a *allocation) begin(line string) string {
	a.t.Helper()
	a.n++
	file := filepath.Join(a.dir, strconv.Itoa(a.n))
	if _, err := fmt.Fprintf(a.lines, "(%s\n) >%[2]s.out 2>%[2]s.err </dev/null; echo $? >%[2]s.part; mv %[2]s.part %[2]s.code\n", line, file); err != nil {
		a.t.Fatal(err)
	}
	return file
}

// steps are the names of the steps of all of the user's jobs.
func (a *allocation) steps() string {
	a.t.Helper()
	out, err := a.Slurm(a.t.Context(), "squeue", "--me", "--noheader", "--steps", "--format=%j")
	if err != nil {
		a.t.Fatal(err)
	}
	return out
}

// refusesHere: what an allocation cannot give is refused before anything starts; and a job of its own, with a note, is what a cluster gets without the key.
func (a *allocation) refusesHere(t *testing.T) {
	for args, want := range map[string]string{
		"--workers 5":                           "needs 5 nodes of 1 CPUs, but job " + a.id + ", in which this command runs, has 2 nodes, with room for 4",
		"--set slurm.partition=gpu":             "slurm.partition",
		"--set slurm.extraArgs='[--nice=1]'":    "slurm.extraArgs",
		"--set job.restarts.nodeFailure=1":      "job.restarts",
		"--slurm-host 'nobody@elsewhere'":       "slurm.job",
		"--set workers.worker.slurm.qos='$(x)'": "workers.worker.slurm.qos",
	} {
		out, code := a.sh(a.current("run", "--name refused --workers 1 "+args+" -- echo never"))
		wrong := 64 // the command line, of which these are
		if strings.HasPrefix(args, "--workers") {
			wrong = 65
		}
		if code != wrong || !strings.Contains(out, want) {
			t.Errorf("%s: code %d, %s", args, code, out)
		}
	}
	if out, code := a.sh("export RAYCTL_SLURM_PARTITION='gpu; $(id)'; " + a.current("run", "--name refused --workers 1 -- echo never")); code != 65 || !strings.Contains(out, "slurm.partition: with slurm.job: current") {
		t.Errorf("a variable: code %d, %s", code, out)
	}
	if _, err := os.Stat(filepath.Join(a.Home(""), ".rayctl", "runs", "refused")); !os.IsNotExist(err) {
		t.Errorf("a refused launch has left its directory: %v", err)
	}
	out, code := a.sh(home.rayctl + " validate --launcher slurm -- echo")
	if code != 0 || !strings.Contains(out, "this command runs inside Slurm job "+a.id+", but the cluster gets a job of its own; slurm.job: current") {
		t.Errorf("code %d, %s", code, out)
	}
	unlike := a.Command(t.Context(), "", "salloc", "--quiet", "--partition=gpu", "--mem=1G", ":", "--partition=cpu", "--mem=1G",
		"sh", "-c", a.current("run", "--name refused --workers 1 -- echo never"))
	unlike.Env = append(unlike.Env, "XDG_RUNTIME_DIR="+a.Home(""))
	if out, _ := unlike.CombinedOutput(); unlike.ProcessState.ExitCode() != 65 || !strings.Contains(string(out), "is heterogeneous, and slurm.job: current cannot use such a job") {
		t.Errorf("in a heterogeneous allocation: code %d, %s", unlike.ProcessState.ExitCode(), out)
	}
	c := a.Command(t.Context(), "", home.rayctl, "run", "--launcher", "slurm", "--slurm-job", "current", "--", "true")
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+a.Home(""))
	text, err := c.CombinedOutput()
	if c.ProcessState.ExitCode() != 65 || !strings.Contains(string(text), "this command does not run in an allocation") {
		t.Errorf("outside: %v, %s", err, text)
	}
	out, code = a.sh(a.current("doctor", "--workers 1"))
	if code != 0 || !strings.Contains(out, "job "+a.id+", in which this command runs, has room for it") || !strings.Contains(out, "Ray on node1") {
		t.Errorf("doctor: code %d, %s", code, out)
	}
	if out, code = a.sh(a.current("doctor", "--workers 1 --set setup='exit 3'")); code == 0 || !strings.Contains(out, "setup exited with code 3") {
		t.Errorf("doctor of a setup that fails: code %d, %s", code, out)
	}
}

// current is a command line of rayctl in the allocation.
func (a *allocation) current(verb, args string) string {
	return "exec " + home.rayctl + " " + verb + " --launcher slurm --slurm-job current --set ray.python=" + a.python + " --cpus-per-worker 1 --memory-per-worker 1Gi " + args
}

// twoNodes: each node is a step, in a container, and has one of the two GPUs that the allocation has there.
func (a *allocation) twoNodes(t *testing.T, image string) {
	const look = `import os, ray
ray.init(log_to_driver=False)
@ray.remote(num_cpus=1, num_gpus=1, scheduling_strategy="SPREAD")
def has():
    return " ".join([ray.util.get_node_ip_address(), os.environ["CUDA_VISIBLE_DEVICES"], os.environ["CONTAINER_PROGRAM"], os.environ["CONTAINER_OPTIONS"], os.environ["APPTAINER_CONTAINER"]])
print(*sorted(n["NodeManagerHostname"] for n in ray.nodes()), ray.cluster_resources()["CPU"], ray.cluster_resources()["GPU"])
print(*sorted(ray.get([has.remote(), has.remote()])), sep="\n")`
	program := filepath.Join(a.dir, "look.py")
	if err := os.WriteFile(program, []byte(look), 0o600); err != nil {
		t.Fatal(err)
	}
	out, code := a.sh(a.current("run", "--name two --workers 2 --gpus-per-worker h100:1 --image "+image+" --set slurm.containerRuntime=apptainer --set 'mounts=[{mountPath: "+a.dir+", source: {slurm: "+a.dir+"}}]' -- python "+program))
	each := `\S+ [01] apptainer --nv ` + regexp.QuoteMeta(image) + `\n`
	if code != 0 || !regexp.MustCompile(`node1 node2 2.0 2.0\n`+each+each).MatchString(out) {
		t.Errorf("code %d, %s\n%s", code, out, a.story())
	}
	a.alone("two")
}

// alone expects that nothing of the run is left, and that all of the user's is.
func (a *allocation) alone(after string) {
	a.t.Helper()
	var steps string
	a.Await(a.t, "no step of "+after, func(context.Context) (bool, error) {
		steps = a.steps()
		return !strings.Contains(steps, "ray"), nil
	})
	jobs, err := a.Slurm(a.t.Context(), "squeue", "--me", "--noheader", "--format=%i %T")
	if !strings.Contains(steps, "mine") || jobs != a.id+" RUNNING" || err != nil {
		a.t.Errorf("after %s: steps %q, jobs %q, %v", after, steps, jobs, err)
	}
}

// clientKilled: the steps outlive their client, and are reached from inside and outside.
func (a *allocation) clientKilled(t *testing.T) {
	gate := filepath.Join(a.dir, "gate")
	a.sh("(" + a.current("run", "--name killed --workers 1 -- sh -c 'echo begun; until [ -e "+gate+" ]; do sleep 0.2; done; echo over; exit 7'") + ") >" + a.dir + "/killed.out 2>&1 & echo $! >" + a.dir + "/killed.pid")
	a.printed("killed", "begun")
	if out, code := a.sh("kill -9 $(cat " + a.dir + "/killed.pid)"); code != 0 {
		t.Fatal(out)
	}
	follows := a.begin(home.rayctl + " logs -f killed --launcher slurm")
	contains(t, "status", a.rayctl("status", "killed", "--launcher", "slurm").out, "in job "+a.id)
	contains(t, "ls", a.rayctl("ls", "--launcher", "slurm").out, "killed")
	contains(t, "exec", a.rayctl("exec", "killed", "--launcher", "slurm", "--", "sh", "-c", "hostname").out, "node1")
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := a.end(follows); code != 7 || !strings.Contains(out, "begun\nover") {
		t.Errorf("logs -f: code %d, %s\n%s", code, out, a.story())
	}
	a.alone("killed")
}

// printed waits until the driver of a run has printed a text.
func (a *allocation) printed(name, text string) {
	a.t.Helper()
	a.Await(a.t, name+" to print "+text, func(context.Context) (bool, error) {
		out, _ := os.ReadFile(filepath.Join(a.Home(""), ".rayctl", "runs", name, "1", "driver.log"))
		return strings.Contains(string(out), text), nil
	})
}

// limitInScript: an sbatch script goes on in its allocation when the cluster there has ended. The limit counts the start of Ray, too, which
// takes long on a busy machine.
func (a *allocation) limitInScript(t *testing.T) {
	file := filepath.Join(a.dir, "script")
	script := "export XDG_RUNTIME_DIR=" + a.Home("") + "\n(" + a.current("run", "--name limited --workers 1 --set lifetime.max=1m -- sh -c 'squeue --me --noheader --format=\"name %j\"; exec sleep 600'") + ")\n" +
		`echo "code $? in job $SLURM_JOB_ID, which is $(squeue --noheader --jobs=$SLURM_JOB_ID --format=%T)"`
	job, err := a.Submit(t.Context(), script, append(twoNodes[1:], "--error="+file, "--output="+file)...)
	if err != nil {
		t.Fatal(err)
	}
	a.AwaitJob(t, job, "COMPLETED", "FAILED", "CANCELLED")
	text, err := os.ReadFile(file)
	if out := string(text); err != nil || !strings.Contains(out, "code 124 in job "+job+", which is RUNNING") || !strings.Contains(out, "lifetime.max") || !strings.Contains(out, "name sbatch\n") || strings.Contains(out, "name limited") {
		t.Errorf("%v: %s\n%s", err, out, a.story())
	}
	a.alone("lifetime.max")
}

// newJob: without the key a cluster is a job of its own, also in an allocation, whose variables it does not have. Of its own
// job the driver has the number.
func (a *allocation) newJob(t *testing.T) {
	line := strings.Replace(a.current("run", `--name apart --workers 1 -- sh -c 'env; echo; squeue --me --noheader --format="%j is %i"'`), " --slurm-job current ", " ", 1)
	out, code := a.sh("export SLURM_HINT=nosuch SBATCH_PARTITION=nosuch; " + line)
	if code != 0 || !strings.Contains(out, "this command runs inside Slurm job "+a.id+", but the cluster gets a job of its own") {
		t.Errorf("code %d, %s\n%s", code, out, a.story())
	}
	own := regexp.MustCompile(`(?m)^apart is (\d+)$`).FindStringSubmatch(out)
	if own == nil || own[1] == a.id {
		t.Fatalf("its job is %q, and salloc's %s: %s", own, a.id, out)
	}
	has := regexp.MustCompile(`(?m)^(SLURM|SBATCH|SRUN|PMI)\w*=.*`).FindAllString(out, -1)
	if slices.Sort(has); !slices.Equal(has, []string{"SLURM_CONF=" + a.Conf(), "SLURM_JOB_ID=" + own[1]}) {
		t.Errorf("the driver has %q", has)
	}
	a.alone("apart")
}

func (a *allocation) interruptedHere(t *testing.T) {
	pid := filepath.Join(a.dir, "interrupted.pid")
	run := a.begin("sh -c 'echo $PPID' >" + pid + "; " + a.current("run", "--name interrupted --workers 1 -- sh -c 'echo begun; exec sleep 600'"))
	a.printed("interrupted", "begun")
	kill := a.Command(t.Context(), "", "sh", "-c", "kill -INT $(cat "+pid+")")
	if out, err := kill.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, code := a.end(run); code != 130 {
		t.Errorf("code %d, %s\n%s", code, out, a.story())
	}
	a.alone("Ctrl-C")
}

func (a *allocation) downHere(t *testing.T) {
	if out, code := a.sh(a.current("up", "stays --workers 1")); code != 0 {
		t.Fatalf("code %d, %s\n%s", code, out, a.story())
	}
	if out, code := a.sh(home.rayctl + " exec stays --launcher slurm -- hostname"); code != 0 || !strings.HasPrefix(out, "node1\n") {
		t.Errorf("exec: code %d, %s", code, out)
	}
	if out, code := a.sh(home.rayctl + " down stays --launcher slurm"); code != 0 {
		t.Errorf("down: code %d, %s", code, out)
	}
	a.alone("down")
}

// keeperKilled: what follows ends our steps, not the user's step 0.
func (a *allocation) keeperKilled(t *testing.T) {
	run := a.begin(a.current("run", "--name orphan --workers 1 -- sh -c 'echo begun; exec sleep 600'"))
	a.printed("orphan", "begun")
	if _, err := a.Exec(t.Context(), 1, "kill -9 $(pgrep -f 'keeper.*slurm-star[t]')"); err != nil {
		t.Error(err)
	}
	if out, code := a.end(run); code != 76 || !strings.Contains(out, "the keeper was killed") {
		t.Errorf("code %d, %s\n%s", code, out, a.story())
	}
	a.alone("orphan")
}

// allocationEnds: with the allocation its clusters end.
func (a *allocation) allocationEnds(t *testing.T) {
	if out, code := a.sh(a.current("up", "ends --workers 1")); code != 0 {
		t.Fatalf("code %d, %s\n%s", code, out, a.story())
	}
	a.lines.Close()
	select {
	case <-a.ended:
	case <-time.After(exampleLimit):
		t.Fatal("salloc does not end")
	}
	var last string
	a.Await(t, "the cluster's end", func(context.Context) (bool, error) {
		last = a.rayctl("status", "ends", "--launcher", "slurm", "-o", "json").out
		return strings.Contains(last, `"phase": "Gone"`) || strings.Contains(last, `"phase":"Gone"`), nil
	})
	contains(t, "status", last, `interrupted`)
	a.rayctl("down", "ends", "--launcher", "slurm")
}

// serves expects that Serve listens on a free port of loopback: other jobs have ports on the head's node, too, and a second Serve on port 8000 would take a
// part of the first one's requests.
func (s *site) serves(python string) {
	s.t.Helper()
	write := func(name, text string) string {
		path := filepath.Join(s.Home(""), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
		return path
	}
	write("app.py", "from ray import serve\n@serve.deployment(ray_actor_options={'num_cpus': 0})\nclass H:\n    def __call__(self, request): return 'hello from Slurm'\napp = H.bind()\n")
	config := write("serve.yaml", "applications:\n- {name: good, import_path: 'app:app', route_prefix: /, runtime_env: {working_dir: .}}\n")
	file := func(name, limits string) string {
		return write(name, "name: served\nlauncher: slurm\nray: {python: "+python+"}\nslurm: {partition: cpu}\nhead: {on: head, cpus: 1}\nworkers: [{name: w, minReplicas: 0, cpus: 1, memory: 1Gi, "+limits+"}\n")
	}
	first, second := file("first.yaml", "maxReplicas: 2}]\nlifetime: {max: 2h"), file("second.yaml", "maxReplicas: 1}]\nlifetime: {max: 3h")
	s.rayctl("up", "-f", first)
	defer s.rayctl("down", "served")
	said := s.rayctl("serve", "apply", "-f", config, "served").err
	url := serveURL(s.t, said, "good")
	if strings.Contains(url, ":8000") {
		s.t.Errorf("Serve listens on a port that others use: %s", url)
	}
	contains(s.t, "apply", said, "`rayctl port-forward served ")
	get := "import urllib.request; print(urllib.request.urlopen('" + url + "').read().decode())"
	contains(s.t, "Ray's own tools", s.shell(`eval "$($RAYCTL env served)" && eval "$($RAYCTL env served)" && $RAY job list && $PYTHON -c '
import ray
ray.init(log_to_driver=False)
print("client", ray.util.client.ray.is_connected())'`, python), "client True")
	contains(s.t, "the application", s.rayctl("exec", "served", "--", "python", "-c", get).out, "hello from Slurm")
	s.oneDirectory("served")
	s.resized("served", second)
	s.daily("served")
}

// shell runs a script beside rayctl and Ray's own tools.
func (s *site) shell(script, python string) string {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), exampleLimit)
	defer cancel()
	c := s.Command(ctx, "", "sh", "-c", script)
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+s.Home(""), "RAYCTL="+home.rayctl, "PYTHON="+python, "RAY="+filepath.Join(filepath.Dir(python), "ray"))
	out, err := c.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

// oneDirectory is TestOneDirectory on Slurm. srun of a driver runs in the cluster's own job.
func (s *site) oneDirectory(name string) {
	s.t.Helper()
	dir := filepath.Join(s.Home(""), "it's $HOME")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "where.py"), []byte(whereabouts), 0o600); err != nil {
		s.t.Fatal(err)
	}
	out := s.shell(`cd "$HOME/it's \$HOME" && $RAYCTL submit -q `+name+` -- python where.py && $RAYCTL submit -q `+name+` -- sh -c 'srun --overlap sh -c "echo in \$SLURM_JOB_ID of $SLURM_JOB_ID"'`, "")
	want := regexp.MustCompile(`\A` + strings.Repeat(regexp.QuoteMeta(dir)+`\|`, 3) + name + `\nSLURM_CONF SLURM_JOB_ID\nin (\d+) of (\d+)\n\z`)
	if m := want.FindStringSubmatch(out); m == nil || m[1] != m[2] {
		s.t.Errorf("printed %q, want %s", out, want)
	}
}

// resized scales a cluster by hand, changes its file, and expects that Slurm has the jobs that follow from that.
func (s *site) resized(name, file string) {
	s.t.Helper()
	companions := func(n int) {
		s.t.Helper()
		s.Await(s.t, fmt.Sprintf("%d nodes above the least", n), func(ctx context.Context) (bool, error) {
			jobs, err := s.Slurm(ctx, "squeue", "--noheader", "--states=PENDING,RUNNING", "--format=%j")
			return strings.Count(jobs, name+"-elastic-") == n, err
		})
	}
	contains(s.t, "scale", s.rayctl("scale", name, "w=2").out, "at least 2 and at most 2")
	companions(2)
	contains(s.t, "a dry run", s.rayctl("up", "-f", file, "--dry-run").out, "workers.w.maxReplicas: 2 -> 1", "lifetime.max: 2h -> 3h")
	contains(s.t, "what up changes", s.rayctl("up", "-f", file).err, name+": changed workers.w.maxReplicas: 2 -> 1", name+": changed lifetime.max: 2h -> 3h")
	contains(s.t, "the limit", s.rayctl("status", name).out, "lifetime.max, in 2 h")
	s.rayctl("scale", name, "w=0")
	contains(s.t, "again", s.rayctl("up", "-f", file, "--dry-run").out, "up would change nothing")
}

// daily are the verbs with which people work on a cluster, as kuberay's test of that name has them.
func (s *site) daily(name string) {
	s.t.Helper()
	contains(s.t, "top", s.rayctl("top", name).out, "NODE ", "head-0", "GiB")
	contains(s.t, "ray status", s.rayctl("exec", name, "--", "ray", "status").out, "Pending Demands")
	ctx, cancel := context.WithTimeout(s.t.Context(), limit)
	defer cancel()
	shell := s.Command(ctx, "", home.rayctl, "exec", name)
	shell.Env = append(shell.Env, "XDG_RUNTIME_DIR="+s.Home(""), "TERM=dumb")
	terminaltest.Shell(s.t, shell)
	contains(s.t, "the logs of a node", s.rayctl("logs", name, "--node", "head-0").out, "raylet.out\n", "runtime_env_agent.log\n")
	contains(s.t, "the agent's log", s.rayctl("logs", name, "--node", "head-0", "--file", "runtime_env_agent.log").out, "runtime_env_agent")
	for id, stop := range map[string][]string{"named": {name, "named"}, "only": {name}} {
		s.rayctl("submit", name, "--detach", "--submission-id", id, "--", "sleep", "600")
		s.rayctl(append([]string{"stop"}, stop...)...)
		contains(s.t, "a stopped job", s.rayctl("jobs", "-c", name, id).out, "STOPPED")
	}
}

// logsIn expects that somebody at a terminal is asked for a password, once for several commands; without a terminal the error has the next step.
func (s *site) logsIn(python string) {
	s.t.Helper()
	config, err := os.ReadFile(filepath.Join(s.Home(""), ".ssh", "config"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.configureSSH(string(config)) })
	s.endMasters()
	text := "Host login1\n  PubkeyAuthentication no\n" + string(config)
	s.configureSSH(text)
	out, err := s.onLogin1("run", "--set", "ray.python="+python, "--", "true").CombinedOutput()
	if err == nil {
		s.t.Errorf("without a terminal: %s", out)
	}
	contains(s.t, "without a terminal", string(out), "Permission denied (", "on a terminal")
	password := []reply{{"password: ", func() string { return s.Login.Password }}}
	asked := s.typed(s.onLogin1("run", "--set", "ray.python="+python, "--", "echo", "logged in"), password)
	contains(s.t, "the run", asked.String(), "logged in\r\n", "succeeded")
	next := startScreen(s.t, s.onLogin1("ls"), true) // the connection is still open
	if code := next.code(); code != 0 || strings.Contains(next.String(), "password") {
		s.t.Errorf("code %d: %s", code, next)
	}
	s.endMasters()
	s.ownConnection(text, password, "ls")
}

// endMasters ends rayctl's connections to login1, which stay open for a minute for the next rayctl (ControlPersist).
func (s *site) endMasters() {
	s.t.Helper()
	sockets, _ := filepath.Glob(filepath.Join(s.Home(""), "rayctl", "ssh", "*"))
	for _, socket := range sockets {
		if out, err := s.Command(s.t.Context(), "", "ssh", "-S", socket, "-O", "exit", "login1").CombinedOutput(); err != nil {
			s.t.Errorf("ssh -O exit: %v: %s", err, out)
		}
	}
}

func (s *site) configureSSH(text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.Home(""), ".ssh", "config"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// onLogin1 is a command of rayctl that reaches Slurm through login1.
func (s *site) onLogin1(verb string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	s.t.Cleanup(cancel)
	c := s.Command(ctx, "", home.rayctl, append([]string{verb, "--launcher", "slurm", "--set", "slurm.host=login1"}, args...)...)
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+s.Home(""))
	return c
}

// reply is what a person types when ssh asks.
type reply struct {
	asks  string
	types func() string
}

// typed lets somebody at a terminal run a command that asks for these, and succeeds.
func (s *site) typed(c *exec.Cmd, answers []reply) *screen {
	s.t.Helper()
	asked := startScreen(s.t, c, true)
	for _, a := range answers {
		asked.until(a.asks, 1)
		asked.key(a.types() + "\n")
	}
	if code := asked.code(); code != 0 {
		s.t.Fatalf("code %d: %s", code, asked)
	}
	return asked
}

// ownConnection: one that the user has opened, typing what is asked for, serves commands without a terminal, and stays.
func (s *site) ownConnection(config string, answers []reply, verb string, args ...string) {
	s.t.Helper()
	s.configureSSH("Host login1\n  ControlPath " + filepath.Join(s.Home(""), ".ssh", "own") + "\n" + config)
	s.typed(s.Command(s.t.Context(), "", "ssh", "-o", "ControlMaster=yes", "-o", "ControlPersist=yes", "login1", "true"), answers)
	if out, err := s.onLogin1(verb, args...).CombinedOutput(); err != nil {
		s.t.Errorf("with the user's own connection: %v: %s", err, out)
	}
	for _, request := range []string{"check", "exit"} {
		if out, err := s.Command(s.t.Context(), "", "ssh", "-O", request, "login1").CombinedOutput(); err != nil {
			s.t.Errorf("ssh -O %s: %v: %s", request, err, out)
		}
	}
}

// twoFactors: a key is not enough, and sshd asks for a password and a code, one after the other. The person who is asked types both.
func (s *site) twoFactors(python string) {
	s.t.Helper()
	config, err := os.ReadFile(filepath.Join(s.Home(""), ".ssh", "config"))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.configureSSH(string(config)) })
	s.endMasters()
	text := "Host login1\n  Port " + strconv.Itoa(slurmtest.TwoFactorsPort) + "\n" + string(config)
	s.configureSSH(text)
	out, err := s.onLogin1("ls").CombinedOutput()
	if err == nil {
		s.t.Errorf("with a key alone: %s", out)
	}
	contains(s.t, "with a key alone", string(out), "Permission denied (keyboard-interactive)", "on a terminal")
	both := []reply{{"Password: ", func() string { return s.Login.Password }}, {"Verification code: ", s.Login.Code}}
	s.typed(s.onLogin1("ls"), both)
	if out, err := s.onLogin1("ls").CombinedOutput(); err != nil { // the connection is still open
		s.t.Errorf("%v: %s", err, out)
	}
	s.endMasters()
	s.ownConnection(text, both, "doctor", "--workers", "1", "--set", "ray.python="+python)
}
