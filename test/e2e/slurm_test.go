//go:build linux

package e2e

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

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
		"--", "sh", "-c", `python grpo.py --goal 0.6 --out "$RAYCTL_OUTPUT_DIR"`)
	learned(t, r, 0.6, 5)
	s.RequireClean(t)
}

// slurmExample is an example's further arguments and site values, and its expected output.
type slurmExample struct {
	args []string
	want string // a regular expression
}

// TestSlurmExamples runs every examples/slurm-*.yaml on one site.
func TestSlurmExamples(t *testing.T) {
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
	examples := map[string]slurmExample{
		"slurm-gpu-gang.yaml": {nil, `trainer-0 on node\d: 16 CPUs, GPUs ` + all + `\ntrainer-1 on node\d: 16 CPUs, GPUs ` + all},
		"slurm-unlike-groups.yaml": {nil, `reward-0 on node4: 2 CPUs, GPUs none\nrollout-0 on node\d: 4 CPUs, GPUs (\d,){3}\d\n` +
			`rollout-1 on node\d: 4 CPUs, GPUs (\d,){3}\d\ntrainer-0 on node\d: 8 CPUs, GPUs ` + all},
		"slurm-containers.yaml": {
			[]string{"--set", "image=" + image, "--set", "mounts=[{mountPath: /models, readOnly: true, source: {slurm: " + models + "}}]"},
			`worker-0 on node\d: 2 CPUs, GPUs \d\nworker-1 on node\d: 2 CPUs, GPUs \d`},
		"slurm-early-head.yaml": {nil, `==> job.prepare <==\nweights are loaded here\n==> driver <==\nhead-0 on node4: 0 CPUs, GPUs none\ntrainer-0 on node\d: 8 CPUs, GPUs ` + all +
			`\ntrainer-1 on node\d: 8 CPUs, GPUs ` + all},
		"slurm-elastic.yaml": {nil, `(?s).*` + elasticLines},
		"slurm-ssh.yaml":     {nil, `worker-0 on node\d: 2 CPUs, GPUs none\nworker-1 on node\d: 2 CPUs, GPUs none`},
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
			if !regexp.MustCompile(`\A` + e.want + `\n\z`).MatchString(r.out) {
				t.Errorf("printed %q, want %q\n%s", r.out, e.want, r.err)
			}
			contains(t, "the receipt", r.err, "succeeded")
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
	write("app.py", "from ray import serve\n@serve.deployment\nclass H:\n    def __call__(self, request): return 'hello from Slurm'\napp = H.bind()\n")
	config := write("serve.yaml", "applications:\n- {name: good, import_path: 'app:app', route_prefix: /, runtime_env: {working_dir: .}}\n")
	s.rayctl("up", "served", "--launcher", "slurm", "--workers", "0", "--set", "slurm.partition=cpu", "--set", "ray.python="+python)
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
}
