// Package tunnels has the ways to a cluster's keeper, dashboard and nodes: directly, by ssh's forwarding, or by a byte stream through a step of the job;
// and the keeper's states as they come by such a way. Commands on nodes run in steps of the job, beside the step with Ray's nodes.
package tunnels

import (
	"log/slog"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/rundir"
	"github.com/rayctl/rayctl/slurm/script"
)

// Pool has the open byte streams into jobs, one for each node that is talked to, and remembers the cheaper ways that were found to heads.
type Pool struct {
	runner remote.Runner // of srun
	log    *slog.Logger

	mu     sync.Mutex
	open   map[string]*Tunnel // by cluster, job, attempt and node
	chosen map[string]dialer  // by cluster, attempt and address; nil: none but a stream
}

// NewPool returns an empty pool, whose tunnels are srun's that the runner starts.
func NewPool(runner remote.Runner, log *slog.Logger) *Pool {
	return &Pool{runner: runner, log: log, open: map[string]*Tunnel{}, chosen: map[string]dialer{}}
}

// Tunnel is one byte stream into a job, and its users.
type Tunnel struct {
	pool *Pool
	key  string

	stream *nodeTunnel

	mu    sync.Mutex
	users int
	idle  *time.Timer
}

// idleTime keeps a way that nobody uses: the next request often follows.
const idleTime = 20 * time.Second

// Take returns the way to a node, for one user more.
func (w *Pool) Take(run *rundir.Run, node string) *Tunnel {
	key := strings.Join([]string{run.Name, strconv.Itoa(run.Current.Job), run.Current.Attempt, node}, "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.open[key]
	if found == nil {
		plan := script.PlanOf(run, 0)
		found = &Tunnel{pool: w, key: key, stream: newNodeTunnel(w.runner, append(append(overlap(run, node), "--unbuffered"),
			plan.OnHost(plan.HostPython(), "-E", "-s", "-S", "-u", path.Join(run.Record.Programs, keeperzip.File), script.RoleRelay)...))}
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

// Drop closes all tunnels into a cluster that has ended.
func (w *Pool) Drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, found := range w.open {
		if strings.HasPrefix(key, name+"/") {
			delete(w.open, key)
			go found.stream.Close()
		}
	}
	for key := range w.chosen {
		if strings.HasPrefix(key, name+"/") {
			delete(w.chosen, key)
		}
	}
}

// Close closes all tunnels and waits until their commands have ended.
func (w *Pool) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, found := range w.open {
		delete(w.open, key)
		if ended := found.stream.Close(); ended != nil {
			<-ended
		}
	}
}

// Release is one user less.
func (w *Tunnel) Release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users == 0 {
		w.idle = time.AfterFunc(idleTime, w.expire)
	}
	return nil
}

// expire closes a way that nobody used for a while.
func (w *Tunnel) expire() {
	w.pool.mu.Lock()
	defer w.pool.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == 0 {
		if w.pool.open[w.key] == w {
			delete(w.pool.open, w.key)
		}
		w.stream.Close()
	}
}
