package tunnels

import (
	"context"
	"errors"
	"net"
	"strconv"
	"sync"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/slurm/rundir"
)

// DialNode connects to a port of a node, as seen from that node: always through a step there.
func (w *Pool) DialNode(ctx context.Context, run *rundir.Run, host string, port int) (net.Conn, error) {
	tunnel := w.Take(run, host)
	conn, err := tunnel.stream.Dial(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, launcher.Fail(runstate.CodeUnreachable, errors.Join(err, tunnel.Release()), "check that something listens there", "port %d does not answer: %v", port, err)
	}
	return &releasing{Conn: conn, release: tunnel.Release}, nil
}

// releasing releases the way with the connection, once.
type releasing struct {
	net.Conn
	release func() error
	once    sync.Once
}

// CloseWrite ends one direction, where the connection can.
func (r *releasing) CloseWrite() error {
	half, ok := r.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Close implements net.Conn.
func (r *releasing) Close() (err error) {
	r.once.Do(func() { err = errors.Join(r.Conn.Close(), r.release()) })
	return err
}
