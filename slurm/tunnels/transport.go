package tunnels

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/proven"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/rundir"
)

// dialer opens connections to addresses as they are seen from somewhere near a cluster's head.
type dialer interface {
	dial(ctx context.Context, address string) (net.Conn, error)
	String() string
}

// direct connects from this machine.
type direct struct{}

func (direct) dial(ctx context.Context, address string) (net.Conn, error) {
	return proven.Dial(directTime)(ctx, "tcp", address)
}

func (direct) String() string { return "direct" }

// forward connects from the login node: one more channel of the connection that all commands share. No program runs there for it.
type forward struct{ ssh *remote.SSH }

func (f forward) dial(ctx context.Context, address string) (net.Conn, error) {
	return f.ssh.Forward(ctx, address)
}

func (f forward) String() string { return "ssh -W through " + f.ssh.Host }

// directTime is long enough for a packet; many sites drop those to compute nodes.
const directTime = 1500 * time.Millisecond

// Transport is the way to one cluster's head for one user.
type Transport struct {
	pool *Pool
	run  *rundir.Run
	key  string
	step *Tunnel // through srun: the last resort

	mu sync.Mutex
	by dialer // nil: step
}

// Transport chooses the way to a cluster's head: from here where the keeper's address can be reached (on the head's node, or where slurm.expose is
// node), through the login node by ssh's own forwarding, or by a byte stream through a step of the job, which always works but costs the
// controller a step.
func (w *Pool) Transport(ctx context.Context, run *rundir.Run) *Transport {
	r := &Transport{pool: w, run: run, key: run.Name + "/" + run.Current.Attempt + "/" + run.State.Keeper.URL, step: w.Take(run, run.Current.Node)}
	w.mu.Lock()
	by, known := w.chosen[r.key]
	w.mu.Unlock()
	if !known {
		by = r.choose(ctx)
	}
	r.by = by
	return r
}

// choose tries the ways in their order, and remembers the first by which the keeper answers.
func (r *Transport) choose(ctx context.Context) dialer {
	var by dialer
	for _, candidate := range r.candidates() {
		if err := r.try(ctx, candidate); err == nil {
			by = candidate
			break
		} else {
			r.pool.log.Debug("a way to the head does not work", "cluster", r.run.Name, "way", candidate.String(), "error", err)
		}
	}
	if ctx.Err() == nil {
		r.pool.mu.Lock()
		r.pool.chosen[r.key] = by
		r.pool.mu.Unlock()
	}
	return by
}

// candidates are the ways that cost the controller nothing.
func (r *Transport) candidates() (out []dialer) {
	u, err := url.Parse(r.run.State.Keeper.URL)
	if err != nil {
		return nil
	}
	if ip := net.ParseIP(u.Hostname()); ip != nil && ip.IsLoopback() {
		if host, err := os.Hostname(); err == nil && shortName(host) == shortName(r.run.Current.Node) && isHere(r.pool.runner) {
			out = append(out, direct{})
		}
		return out
	}
	out = append(out, direct{})
	if s, ok := r.pool.runner.(*remote.SSH); ok {
		out = append(out, forward{s})
	}
	return out
}

func shortName(host string) string {
	short, _, _ := strings.Cut(host, ".")
	return short
}

func isHere(r remote.Runner) bool { _, here := r.(remote.Here); return here }

// tryTime bounds one attempt; ssh may have to make its connection.
const tryTime = 10 * time.Second

// try requests the keeper's state by one way.
func (r *Transport) try(ctx context.Context, by dialer) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	k := keeper.NewClient(keeper.Endpoint{URL: r.run.State.Keeper.URL, Token: r.run.Token,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) { return by.dial(ctx, address) }})
	defer k.Close()
	_, err := k.State(ctx)
	return err
}

// free reports whether the way costs the controller nothing, or is open anyway.
func (r *Transport) free() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by != nil || r.step.stream.IsOpen()
}

// Dial opens a connection. A way that does not work any more is chosen anew by the next user; this connection goes through a step.
func (r *Transport) Dial(ctx context.Context, address string) (net.Conn, error) {
	r.mu.Lock()
	by := r.by
	r.mu.Unlock()
	if by != nil {
		conn, err := by.dial(ctx, address)
		if err == nil {
			return &unheard{Conn: conn, silent: func() { r.forget(errSilent) }}, nil
		}
		if ctx.Err() != nil {
			return nil, err
		}
		r.forget(err)
	}
	return r.step.stream.Dial(ctx, address)
}

// dialContext is dial as HTTP clients want it.
func (r *Transport) dialContext(ctx context.Context, _, address string) (net.Conn, error) {
	return r.Dial(ctx, address)
}

func (r *Transport) forget(why error) {
	r.pool.log.Debug("a way to the head is cut", "cluster", r.run.Name, "way", r.String(), "error", why)
	r.mu.Lock()
	r.by = nil
	r.mu.Unlock()
	r.pool.mu.Lock()
	delete(r.pool.chosen, r.key)
	r.pool.mu.Unlock()
}

// String names the way.
func (r *Transport) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by != nil {
		return r.by.String()
	}
	return "srun --overlap on " + r.run.Current.Node
}

// Release is one user less.
func (r *Transport) Release() error { return r.step.Release() }

var errSilent = errors.New("a connection ended without a byte")

// unheard is a connection that calls silent if it ends before a byte was received: ssh reports only on use that nothing listens or that forwarding is forbidden.
type unheard struct {
	net.Conn
	heard  bool
	silent func()
}

func (u *unheard) Read(p []byte) (int, error) {
	n, err := u.Conn.Read(p)
	if n > 0 {
		u.heard = true
	} else if err != nil && !u.heard && !errors.Is(err, net.ErrClosed) {
		u.silent()
	}
	return n, err
}
