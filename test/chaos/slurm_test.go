//go:build linux

package chaos

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/raytest"
	"github.com/rayctl/rayctl/test/slurmtest"
)

// slurmWorld is a Slurm cluster of four nodes.
type slurmWorld struct {
	*slurmtest.Cluster
	t              *testing.T
	rayctl, python string
	orders         string // of slurmtest.WrapSbatch
	off            int    // the node without power, from 1
}

func newSlurmWorld(t *testing.T, rayctl string) world {
	python := raytest.Env(t, raytest.Ray260)
	base, err := filepath.EvalSymlinks(python)
	if err != nil {
		t.Fatal(err)
	}
	binds := []string{filepath.Dir(rayctl), filepath.Dir(filepath.Dir(python)), filepath.Dir(filepath.Dir(base))}
	w := &slurmWorld{t: t, rayctl: rayctl, python: python}
	// One cycle of pings waits MessageTimeout (10 s) for a node that is dark, and records the answers of the others at its end (slurmctld/agent.c): with the bed's
	// SlurmdTimeout, which is as long, living nodes would be down, too. A supervisor has KillWait to end Ray.
	w.Cluster = slurmtest.Start(t, slurmtest.Options{Nodes: 4, Preemption: true, Binds: binds, Settings: map[string]string{"SlurmdTimeout": "30", "KillWait": "20"}})
	w.orders = w.WrapSbatch(t)
	return w
}

func (w *slurmWorld) dir() string { return w.Dir + "/shared" }

func (w *slurmWorld) command(ctx context.Context, args ...string) *exec.Cmd {
	c := w.Command(ctx, "", w.rayctl, args...)
	c.Env = append(c.Env, "XDG_RUNTIME_DIR="+w.Home(""), "PATH="+w.orders+"/bin:"+slurmtest.SearchPath)
	return c
}

func (w *slurmWorld) file(d drawn, _ string) string {
	text := "launcher: slurm\nray: {python: " + w.python + "}\nslurm: {dir: " + w.dir() + "/rayctl, exclusive: true}\n"
	switch {
	case d.kind == early: // a partition that stays open when the gang's is closed
		text += "head: {early: true, cpus: 1, memory: 1Gi, slurm: {partition: high}}\n" + earlyGroup(d, "cpus: 1, memory: 1Gi")
	case d.bursts > 0 && d.workers == 0:
		text += "head: {cpus: 1}\n" + elasticGroup(d, "cpus: 1, memory: 1Gi")
	case d.bursts > 0:
		text += elasticGroup(d, "cpus: 1, memory: 1Gi")
	case d.workers > 0:
		text += "workers: [{name: w, replicas: 2, cpus: 1, memory: 1Gi}]\n"
	}
	return text
}

func (w *slurmWorld) runDir(run string) string { return filepath.Join(w.dir(), "rayctl", "runs", run) }

func (w *slurmWorld) processes(run string) []process { return ofRun(run, w.runDir(run)) }

func (w *slurmWorld) allocated(run string) (left []string) {
	jobs, err := w.Slurm(context.Background(), "squeue", "--noheader", "--format=%j job %i %T")
	if err != nil {
		return []string{err.Error()}
	}
	for _, job := range strings.Split(jobs, "\n") {
		if strings.HasPrefix(job, run+" ") || strings.HasPrefix(job, run+"-elastic-") || strings.HasPrefix(job, run+"-workers-") {
			left = append(left, job)
		}
	}
	for _, p := range w.processes(run) {
		left = append(left, p.String())
	}
	return append(left, secretFiles(w.runDir(run))...)
}

func (w *slurmWorld) surfaces(run string) map[string][]byte {
	out := merge(files(w.runDir(run)), argv(), files(w.Dir+"/state"), files(w.Dir+"/spool"), files(w.Dir+"/log"))
	if shown, err := w.Slurm(context.Background(), "scontrol", "show", "job", "--details"); err == nil {
		out["scontrol show job"] = []byte(shown)
	}
	return out
}

func (w *slurmWorld) story(run string) string { return story(w.runDir(run)) }

// job is the run's job id; empty before it has one.
func (w *slurmWorld) job(run string) string {
	out, _ := w.Slurm(context.Background(), "squeue", "--noheader", "--name="+run, "--format=%A")
	id, _, _ := strings.Cut(out, "\n")
	return strings.TrimSpace(id)
}

// onJob runs a command of Slurm on the run's job.
func (w *slurmWorld) onJob(argv ...string) func(*runningCase) bool {
	return func(r *runningCase) bool {
		id := w.job(r.d.run())
		if id == "" {
			return false
		}
		full := make([]string, len(argv))
		for i, a := range argv {
			full[i] = strings.ReplaceAll(a, "JOB", id)
		}
		_, err := w.Slurm(context.Background(), full[0], full[1:]...)
		return err == nil
	}
}

func (w *slurmWorld) faults() map[string]fault {
	return merge(clientFaults(), rayFaults(false), map[string]fault{
		"keeper killed":     {strike: kill("keeper.pyz slurm-start"), causes: []string{"lost"}, node: true},
		"keeper frozen":     {strike: freeze(8*time.Second, "keeper.pyz slurm-start")},
		"supervisor killed": {strike: kill("keeper.pyz node"), causes: []string{"lost"}, node: true},
		"scancel":           {strike: w.onJob("scancel", "JOB"), causes: []string{"interrupted"}},
		"requeued":          {strike: w.onJob("scontrol", "requeue", "JOB")},
		"comment rewritten": {strike: w.onJob("scontrol", "update", "JobId=JOB", "Comment=rewritten by a plugin")},
		"controller killed": {strike: w.controllerKilled},
		"node loses power":  {strike: w.powerCut, causes: []string{"lost"}, node: true, lossy: true},
	})
}

// controllerKilled waits until the controller has saved the job, which takes it some seconds: one that it knew alone is lost to Slurm, which ends it as an orphan.
func (w *slurmWorld) controllerKilled(r *runningCase) bool {
	for range 100 {
		saved, _ := os.ReadFile(w.Dir + "/state/job_state")
		if bytes.Contains(saved, []byte(r.d.run())) {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	if err := w.KillController(); err != nil {
		return false
	}
	time.Sleep(8 * time.Second)
	return w.StartController(context.Background()) == nil
}

// powerCut switches off the first node of the run's job, which has the head.
func (w *slurmWorld) powerCut(r *runningCase) bool {
	return w.cut(w.headHost(r))
}

// headHost is the first node of the run's job; "": it has none.
func (w *slurmWorld) headHost(r *runningCase) string {
	out, _ := w.Slurm(context.Background(), "squeue", "--noheader", "--name="+r.d.run(), "--format=%N")
	hosts, _ := w.Slurm(context.Background(), "scontrol", "show", "hostnames", strings.TrimSpace(out))
	first, _, _ := strings.Cut(hosts, "\n")
	return first
}

// cut switches a node off.
func (w *slurmWorld) cut(host string) bool {
	node, err := strconv.Atoi(strings.TrimPrefix(host, "node"))
	if err != nil || w.PowerOffNode(node) != nil {
		return false
	}
	w.off = node
	return true
}

func (w *slurmWorld) settle(t *testing.T) {
	w.hold(false)
	_ = os.Remove(filepath.Join(w.orders, "lose"))
	if w.off == 0 {
		return
	}
	if err := w.PowerOnNode(w.off); err != nil {
		t.Fatal(err)
	}
	w.AwaitNodeBack(t, w.off)
	w.off = 0
}

func (w *slurmWorld) end(t *testing.T) {
	if err := os.RemoveAll(w.Home("") + "/.ssh"); err != nil {
		t.Error(err)
	}
	w.RequireClean(t)
}
