package slurm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"sync"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
)

// Dial reaches keeper and dashboard by the cheapest way that works (see transport). All endpoints of a cluster share it; it is chosen and made again
// when it was cut.
func (l *Launcher) Dial(ctx context.Context, id launcher.ID, t launcher.Target) (*launcher.Endpoint, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.result != nil {
		return nil, c.ended()
	}
	address := c.address(t)
	if address == "" || c.token == "" || c.current.Node == "" {
		return nil, c.notReady(string(t))
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, launcher.Fail(runstate.CodeInternal, err, "", "the keeper of %s told a bad address: %v", c.name, err)
	}
	r := l.tunnels.transport(ctx, c)
	return &launcher.Endpoint{
		URL: address, Token: c.token, TokenHeader: "Authorization", Via: r.String(),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.dial(ctx, u.Host) },
		CloseFunc:   r.release,
	}, nil
}

func (c *cluster) address(t launcher.Target) string {
	switch {
	case c.state == nil:
		return ""
	case t == launcher.Keeper:
		return c.state.Keeper.URL
	case c.state.Head.RayVersion != "": // the dashboard has answered the keeper
		return c.state.Head.Dashboard
	}
	return ""
}

func (c *cluster) notReady(what string) error {
	return launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotReady, "`rayctl status "+c.name+"` says what it waits for", "the %s of %s does not answer yet", what, c.name)
}

func (c *cluster) ended() error {
	return launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotFound, "`rayctl logs "+c.name+"` shows what it left", "%s has ended", c.name)
}

// running finds a cluster whose keeper lives; ErrNotFound once it is gone, ErrNotReady before.
func (l *Launcher) running(ctx context.Context, id launcher.ID) (*cluster, error) {
	c, err := l.open(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case c.result != nil:
		return nil, c.ended()
	case c.state == nil || c.current.Job == 0:
		return nil, c.notReady("keeper")
	}
	return c, nil
}

// host is Slurm's name of a node of the cluster; "" is the head's.
func (c *cluster) host(node string) (string, error) {
	known := ""
	for _, n := range c.state.Nodes {
		if n.Name == node {
			return n.Host, nil
		}
		known += " " + n.Name
	}
	if node == "" {
		return c.current.Node, nil
	}
	return "", launcher.Fail(runstate.CodeUsage, nil, "its nodes are:"+known, "%s has no node %q", c.name, node)
}

// DialNode connects to a port of a node, as seen from that node: always through a step there.
func (l *Launcher) DialNode(ctx context.Context, id launcher.ID, node string, port int) (net.Conn, error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return nil, err
	}
	host, err := c.host(node)
	if err != nil {
		return nil, err
	}
	w := l.tunnels.take(c, host)
	conn, err := w.Dial(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, launcher.Fail(runstate.CodeUnreachable, errors.Join(err, w.release()), "check that something listens there", "port %d does not answer: %v", port, err)
	}
	return &releasing{Conn: conn, release: w.release}, nil
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

var _ launcher.NodeDialer = (*Launcher)(nil)

// refuseExposed keeps dashboards that ask for no token on loopback. Which Ray the nodes have is only sure where the keeper asserts it.
func refuseExposed(s *spec.ClusterSpec) error {
	var major, minor int
	if n, _ := fmt.Sscanf(s.Ray.Version, "%d.%d", &major, &minor); s.Slurm.Expose != "node" || n == 2 && (major > 2 || major == 2 && minor >= 52) {
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, nil, "set ray.version to 2.52 or later, or leave slurm.expose out", "the dashboard of %s would be open to everybody: before 2.52 Ray has no tokens", s.Name)
}
