//go:build linux

package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/test/raytest"
)

// world is one launcher on its real substrate.
type world interface {
	// dir is a directory with the same path for the client and all nodes.
	dir() string
	// command prepares a rayctl command like a user of this substrate.
	command(ctx context.Context, args ...string) *exec.Cmd
	// file is the substrate's part of the cluster file; books is the directory that nodes must share.
	file(d drawn, books string) string
	// processes returns a run's processes on all nodes.
	processes(run string) []process
	// allocated lists what the substrate still has of an ended run.
	allocated(run string) []string
	// surfaces are what the substrate stores and shows of a run, without files that exist to hold secrets.
	surfaces(run string) map[string][]byte
	// story is diagnostic output for a violation.
	story(run string) string
	faults() map[string]fault
	// elasticFaults concern the nodes of elastic groups that come and go.
	elasticFaults() map[string]fault
	// earlyFaults concern clusters with an early head.
	earlyFaults() map[string]fault
	// daemonFaults concern the daemons around a run, its log and its ports.
	daemonFaults() map[string]fault
	// hold sets whether the queue for gangs of early heads is closed.
	hold(closed bool)
	// settle restores the substrate after a case, and returns when it works.
	settle(t *testing.T)
	// end checks that nothing is left of any case.
	end(t *testing.T)
}

// worlds make a launcher's world.
var worlds = map[string]func(t *testing.T, rayctl string) world{
	"local": newLocalWorld, "slurm": newSlurmWorld, "kuberay": newKubeWorld,
}

// localWorld is this machine.
type localWorld struct{ home, rayctl, python string }

func newLocalWorld(t *testing.T, rayctl string) world {
	return &localWorld{home: t.TempDir(), rayctl: rayctl, python: raytest.Env(t, raytest.Ray260)}
}

func (w *localWorld) dir() string { return w.home }

func (w *localWorld) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, w.rayctl, args...)
	c.Env = append(plainEnvironment(), "HOME="+w.home, "XDG_STATE_HOME="+w.home+"/state", "XDG_CACHE_HOME="+w.home+"/cache", "XDG_CONFIG_HOME="+w.home+"/config")
	return c
}

func (w *localWorld) file(d drawn, _ string) string {
	text := "launcher: local\nray: {python: " + w.python + "}\n"
	switch {
	case d.kind == early:
		text += "head: {early: true, cpus: 1}\n" + earlyGroup(d, "cpus: 1")
	case d.bursts > 0:
		text += "head: {cpus: 1}\n" + elasticGroup(d, "cpus: 1")
	case d.workers > 0:
		text += "head: {cpus: 1}\nworkers: [{name: w, cpus: 1}]\n"
	}
	return text
}

// elasticGroup is the driver's group of workers, each of this size, in the cluster file.
func elasticGroup(d drawn, size string) string {
	return fmt.Sprintf("workers: [{name: w, %s, minReplicas: %d, maxReplicas: %d, resources: {w: 1}}]\nscaling: {idle: 3s}\n", size, d.workers, d.most())
}

// earlyGroup is the same beside an early head, where the group need not be elastic.
func earlyGroup(d drawn, size string) string {
	if d.bursts > 0 {
		return elasticGroup(d, size)
	}
	return fmt.Sprintf("workers: [{name: w, %s, replicas: %d}]\n", size, d.workers)
}

func (w *localWorld) runDir(run string) string {
	return filepath.Join(w.home, "state", "rayctl", "clusters", run)
}

func (w *localWorld) processes(run string) []process { return ofRun(run, w.runDir(run)) }

func (w *localWorld) allocated(run string) (left []string) {
	for _, p := range w.processes(run) {
		left = append(left, p.String())
	}
	left = append(left, secretFiles(w.runDir(run))...)
	reports, _ := filepath.Glob(filepath.Join(w.runDir(run), keeper.NodesDir, "*", "report.json"))
	for _, r := range reports {
		text, _ := os.ReadFile(r)
		for _, word := range strings.Split(string(text), `"`) { // the directory of Ray's files, made by a node's supervisor
			info, err := os.Stat(word)
			if err == nil && info.IsDir() && strings.HasPrefix(filepath.Base(word), "r") && filepath.Dir(word) == filepath.Clean(os.TempDir()) {
				left = append(left, "directory "+word)
			}
		}
	}
	return left
}

func (w *localWorld) surfaces(run string) map[string][]byte {
	return merge(files(w.runDir(run)), argv())
}

func (w *localWorld) story(run string) string { return story(w.runDir(run)) }

func (w *localWorld) faults() map[string]fault {
	return merge(clientFaults(), rayFaults(false), map[string]fault{
		"keeper killed":     {strike: kill("keeper.pyz keeper"), causes: []string{"lost", "abandoned"}},
		"keeper frozen":     {strike: freeze(8*time.Second, "keeper.pyz keeper")},
		"supervisor killed": {strike: kill("keeper.pyz node"), causes: []string{"lost"}, node: true},
	})
}

func (w *localWorld) elasticFaults() map[string]fault { return nodeFaults() }

// earlyFaults: all nodes of this machine come at once, so that no gang waits.
func (w *localWorld) earlyFaults() map[string]fault {
	return map[string]fault{"autoscaler killed": nodeFaults()["autoscaler killed"]}
}

func (w *localWorld) hold(bool) {}

func (w *localWorld) settle(*testing.T) {}

func (w *localWorld) end(*testing.T) {}
