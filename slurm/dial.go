package slurm

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strconv"

	"github.com/rayctl/rayctl/launcher"
)

// Dial reaches keeper and dashboard, which listen on loopback of the head's node, over one byte stream through a step of the job. All
// endpoints of a cluster share it; it is made again when it was cut.
func (l *Launcher) Dial(ctx context.Context, id launcher.ID, t launcher.Target) (*launcher.Endpoint, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.result != nil {
		return nil, launcher.Fail(launcher.CodeUnreachable, launcher.ErrNotFound, "`rayctl logs "+c.name+"` shows what it left", "%s has ended", c.name)
	}
	address := c.address(t)
	if address == "" || c.token == "" || c.current.Node == "" {
		return nil, c.notReady(string(t))
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, launcher.Fail(launcher.CodeInternal, err, "", "the keeper of %s told a bad address: %v", c.name, err)
	}
	w := l.ways.take(c, c.current.Node)
	return &launcher.Endpoint{
		URL: address, Token: c.token, TokenHeader: "Authorization", Via: "srun --overlap on " + c.current.Node,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx, u.Host) },
		CloseFunc:   w.release,
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
	return launcher.Fail(launcher.CodeUnreachable, launcher.ErrNotReady, "`rayctl status "+c.name+"` says what it waits for", "the %s of %s does not answer yet", what, c.name)
}

// running finds a cluster whose keeper lives; ErrNotFound once it is gone, ErrNotReady before.
func (l *Launcher) running(ctx context.Context, id launcher.ID) (*cluster, error) {
	c, err := l.open(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case c.result != nil:
		return nil, launcher.Fail(launcher.CodeUnreachable, launcher.ErrNotFound, "`rayctl logs "+c.name+"` shows what it left", "%s has ended", c.name)
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
	return "", launcher.Fail(launcher.CodeUsage, nil, "its nodes are:"+known, "%s has no node %q", c.name, node)
}

// DialNode connects to a port of a node, as seen from that node.
func (l *Launcher) DialNode(ctx context.Context, id launcher.ID, node string, port int) (net.Conn, error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return nil, err
	}
	host, err := c.host(node)
	if err != nil {
		return nil, err
	}
	w := l.ways.take(c, host)
	conn, err := w.dial(ctx, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, launcher.Fail(launcher.CodeUnreachable, errors.Join(err, w.release()), "check that something listens there", "port %d does not answer: %v", port, err)
	}
	return &releasing{Conn: conn, release: w.release}, nil
}

// releasing releases the way with the connection.
type releasing struct {
	net.Conn
	release func() error
}

func (r *releasing) Close() error { return errors.Join(r.Conn.Close(), r.release()) }

var _ launcher.NodeDialer = (*Launcher)(nil)
