//go:build linux

package e2e

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// twoNodes are salloc's arguments.
var twoNodes = []string{"--quiet", "--partition=gpu", "--nodes=2", "--ntasks-per-node=1", "--cpus-per-task=2", "--mem=8G", "--gres=gpu:h100:2"}

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

// current is a command line of rayctl in the allocation.
func (a *allocation) current(verb, args string) string {
	return "exec " + home.rayctl + " " + verb + " --launcher slurm --slurm-job current --set ray.python=" + a.python + " --cpus-per-worker 1 --memory-per-worker 1Gi " + args
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

// printed waits until the driver of a run has printed a text.
func (a *allocation) printed(name, text string) {
	a.t.Helper()
	a.Await(a.t, name+" to print "+text, func(context.Context) (bool, error) {
		out, _ := os.ReadFile(filepath.Join(a.Home(""), ".rayctl", "runs", name, "1", "driver.log"))
		return strings.Contains(string(out), text), nil
	})
}
