package slurm

import (
	"context"
	"fmt"
	"net"
	"net/url"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/slurm/slurmspec"
)

// Dial reaches keeper and dashboard by the cheapest way that works (see transport). All endpoints of a cluster share it; it is chosen and made again
// when it was cut.
func (l *Launcher) Dial(ctx context.Context, id launcher.ID, t launcher.Target) (*launcher.Endpoint, error) {
	c, err := l.open(ctx, id)
	if err != nil {
		return nil, err
	}
	if c.run.Result != nil {
		return nil, c.ended()
	}
	address, token := c.run.Address(t), c.run.Token
	if t == launcher.Dashboard && address != "" {
		if token, err = c.run.RayToken(ctx); err != nil {
			return nil, err
		}
	}
	if address == "" || token == "" || c.run.Current.Node == "" {
		return nil, c.notReady(string(t))
	}
	u, err := url.Parse(address)
	if err != nil {
		return nil, launcher.Fail(runstate.CodeInternal, err, "`rayctl down "+c.run.Name+"` ends the cluster; then launch it again", "the keeper of %s reported an invalid address: %v", c.run.Name, err)
	}
	r := l.tunnels.Transport(ctx, c.run)
	return &launcher.Endpoint{
		URL: address, Token: token, TokenHeader: "Authorization", Via: r.String(),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return r.Dial(ctx, u.Host) },
		CloseFunc:   r.Release,
	}, nil
}

func (c *cluster) notReady(what string) error {
	return launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotReady, "`rayctl status "+c.run.Name+"` shows what it waits for", "the %s of %s does not answer yet", what, c.run.Name)
}

func (c *cluster) ended() error {
	return launcher.Fail(runstate.CodeUnreachable, launcher.ErrNotFound, "`rayctl logs "+c.run.Name+"` shows what it left", "%s has ended", c.run.Name)
}

// running finds a cluster whose keeper lives; ErrNotFound once it has ended, ErrNotReady before.
func (l *Launcher) running(ctx context.Context, id launcher.ID) (*cluster, error) {
	c, err := l.open(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case c.run.Result != nil:
		return nil, c.ended()
	case c.run.State == nil || c.run.Current.Job == 0:
		return nil, c.notReady("keeper")
	}
	return c, nil
}

// DialNode connects to a port of a node, as seen from that node: always through a step there.
func (l *Launcher) DialNode(ctx context.Context, id launcher.ID, node string, port int) (net.Conn, error) {
	c, err := l.running(ctx, id)
	if err != nil {
		return nil, err
	}
	host, err := c.run.Host(node)
	if err != nil {
		return nil, err
	}
	return l.tunnels.DialNode(ctx, c.run, host, port)
}

// ReachNode knows nothing against a node: each connection has a tunnel of its own.
func (l *Launcher) ReachNode(context.Context, launcher.ID, string) error { return nil }

// refuseExposed keeps dashboards that ask for no token on loopback. Which Ray the nodes have is only sure where the keeper asserts it.
func refuseExposed(s *spec.ClusterSpec) error {
	var major, minor int
	if n, _ := fmt.Sscanf(s.Ray.Version, "%d.%d", &major, &minor); slurmspec.Of(s).Expose != "node" || n == 2 && (major > 2 || major == 2 && minor >= 52) {
		return nil
	}
	return launcher.Fail(runstate.CodeSpec, nil, "set ray.version to 2.52 or later, or leave slurm.expose out", "the dashboard of %s would be open to everybody: before 2.52 Ray has no tokens", s.Name)
}
