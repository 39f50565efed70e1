//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/test/pace"
	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// site is a Slurm cluster with a user who runs rayctl next to its controller, as on a login node.
type site struct {
	*slurmtest.Cluster
	t    *testing.T
	path string // PATH=..., if it is not the usual one
}

func newSite(t *testing.T, o slurmtest.Options, binds ...string) *site {
	t.Helper()
	o.Binds = slices.Concat(binds, []string{home.dir, example(t)})
	return &site{Cluster: slurmtest.Start(t, o), t: t}
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

// slurmExample is an example's further arguments and site values, and its expected output.
type slurmExample struct {
	args   []string
	want   string // a regular expression
	shared string // the copies of the run for a group
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
	t.Run("allocation", func(t *testing.T) { s := *s; s.t = t; s.inAllocation(t, python, image) })
	t.Run("serve", func(t *testing.T) { s := *s; s.t = t; s.serves(python) })
	t.Run("password", func(t *testing.T) { s := *s; s.t = t; s.logsIn(python) })
	s.endMasters()
	s.RequireClean(t)
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
