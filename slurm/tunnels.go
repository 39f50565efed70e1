package slurm

import (
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rayctl/rayctl/slurm/nodetunnel"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/templates"
)

// tunnels are the open byte streams into jobs, one for each node that is talked to, and the cheaper ways that were found to heads.
type tunnels struct {
	mu     sync.Mutex
	open   map[string]*tunnel // by cluster, job, attempt and node
	chosen map[string]dialer  // by cluster, attempt and address; nil: none but a stream
}

// tunnel is one of them, and its users.
type tunnel struct {
	tunnels *tunnels
	key     string

	*nodetunnel.Tunnel

	mu    sync.Mutex
	users int
	idle  *time.Timer
}

// idleTime keeps a way that nobody uses: the next request often follows.
const idleTime = 20 * time.Second

// take returns the way to a node, for one user more.
func (w *tunnels) take(c *cluster, node string) *tunnel {
	key := strings.Join([]string{c.name, strconv.Itoa(c.current.Job), c.current.Attempt, node}, "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.open[key]
	if found == nil {
		found = &tunnel{tunnels: w, key: key, Tunnel: nodetunnel.New(c.l.site.runner, append(c.overlap(node), "--unbuffered",
			c.plan(0).HostPython(), "-E", "-s", "-S", "-u", path.Join(c.record.Programs, templates.SlurmRelay)))}
		w.open[key] = found
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	found.users++
	if found.idle != nil {
		found.idle.Stop()
		found.idle = nil
	}
	return found
}

// overlap begins a step of the job on one node that takes nothing from Ray's.
func (c *cluster) overlap(node string) []string {
	argv := []string{"srun", "--quiet", "--overlap", "--jobid=" + strconv.Itoa(c.current.Job), "--nodelist=" + node, "--nodes=1", "--ntasks=1",
		"--mpi=none", "--cpu-bind=none", "--export=ALL", "--chdir=/", "--job-name=rayctl"}
	if len(c.plan(0).Components()) > 1 {
		argv = append(argv, "--het-group="+c.componentOf(node))
	}
	return remote.CleanStep(argv...)
}

// componentOf is the part of a heterogeneous job that a node belongs to.
func (c *cluster) componentOf(node string) string {
	if c.state == nil {
		return "0"
	}
	for _, n := range c.state.Nodes {
		if n.Host != node {
			continue
		}
		at := 0
		for i, part := range c.plan(0).Components() {
			for range part.Nodes {
				if at < len(c.state.Nodes) && c.state.Nodes[at].Name == n.Name {
					return strconv.Itoa(i)
				}
				at++
			}
		}
	}
	return "0"
}

// drop closes all tunnels into a cluster that has ended.
func (w *tunnels) drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, found := range w.open {
		if strings.HasPrefix(key, name+"/") {
			delete(w.open, key)
			go found.Close()
		}
	}
	for key := range w.chosen {
		if strings.HasPrefix(key, name+"/") {
			delete(w.chosen, key)
		}
	}
}

// closeAll closes all tunnels and waits until their commands have ended.
func (w *tunnels) closeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, found := range w.open {
		delete(w.open, key)
		if ended := found.Close(); ended != nil {
			<-ended
		}
	}
}

// release is one user less.
func (w *tunnel) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users == 0 {
		w.idle = time.AfterFunc(idleTime, w.expire)
	}
	return nil
}

// expire closes a way that nobody used for a while.
func (w *tunnel) expire() {
	w.tunnels.mu.Lock()
	defer w.tunnels.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == 0 {
		if w.tunnels.open[w.key] == w {
			delete(w.tunnels.open, w.key)
		}
		w.Close()
	}
}
