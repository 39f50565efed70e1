package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rayctl/rayctl/cmd/app"
)

type portForwardOptions struct {
	config app.ConfigFlags
	name   string
	node   string
	ports  []forwardedPort
}

// forwardedPort is LOCAL:REMOTE; local 0 is any free port.
type forwardedPort struct{ local, remote int }

// NewPortForward is `rayctl port-forward`.
func NewPortForward(a *app.App) *cobra.Command {
	o := &portForwardOptions{}
	c := &cobra.Command{
		Use:   "port-forward [NAME] [LOCAL:]REMOTE...",
		Short: "Forward local ports to a node until Ctrl-C",
		Long: "port-forward listens on 127.0.0.1:LOCAL and forwards each connection to port REMOTE of the head's node, or of NODE. It prints the address on which it\n" +
			"listens. LOCAL is by default the same port as REMOTE; if it is empty (:8000), rayctl chooses a free port. REMOTE 8265 of the head's node is the dashboard,\n" +
			"also where that has another port; `rayctl dashboard` also sends the token that it asks for.",
		Example: "  rayctl port-forward 8000                 # Serve's port\n" +
			"  rayctl port-forward dev 9000:8000 :6006 --node trainer-0",
		Args: func(c *cobra.Command, args []string) error { return o.arguments(args) },
		RunE: func(c *cobra.Command, args []string) error {
			return a.Action(func(ctx context.Context) error { return runPortForward(ctx, a, o) })(c, args)
		},
		ValidArgsFunction: a.CompleteClusters,
	}
	o.config.AddSelection(c)
	c.Flags().StringVar(&o.node, "node", "", "name of the `NODE` (default: the head's)")
	a.CompleteNodes(c)
	return c
}

// arguments distinguishes an optional name and the ports.
func (o *portForwardOptions) arguments(args []string) error {
	if len(args) > 0 && strings.Trim(args[0], "0123456789:") != "" {
		o.name, args = args[0], args[1:]
	}
	if len(args) == 0 {
		return app.UsageError("write it like `rayctl port-forward 8000`", "`rayctl port-forward` needs a port")
	}
	o.ports = nil
	for _, text := range args {
		p, err := parsePorts(text)
		if err != nil {
			return err
		}
		o.ports = append(o.ports, p)
	}
	return nil
}

func parsePorts(text string) (forwardedPort, error) {
	local, remote, two := strings.Cut(text, ":")
	if !two {
		remote = local
	}
	var p forwardedPort
	var err error
	if p.remote, err = parsePort(remote); err != nil || p.remote == 0 {
		return p, app.UsageError("write it LOCAL:REMOTE, like 9000:8000", "%q is not a port", text)
	}
	if local == "" {
		return p, nil
	}
	if p.local, err = parsePort(local); err != nil {
		return p, app.UsageError("write it LOCAL:REMOTE, like 9000:8000", "%q is not a port", text)
	}
	return p, nil
}

func parsePort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	return int(n), err
}

// runPortForward forwards connections until it is interrupted.
func runPortForward(ctx context.Context, a *app.App, o *portForwardOptions) error {
	c, err := a.Find(ctx, app.FindOptions{Name: o.name, Config: &o.config})
	if err != nil {
		return err
	}
	if err := c.Launcher.ReachNode(ctx, c.ID, o.node); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, p := range o.ports {
		if p.remote == rayDashboardPort && o.node == "" {
			p.remote = dashboardPort(ctx, a, c)
		}
		if c.Launcher.Properties().HeadsHere && p.local == p.remote { // it would connect to itself
			return app.UsageError(fmt.Sprintf("use 127.0.0.1:%d itself, or give another LOCAL port", p.remote), "%s is on this machine, and so is its port %d", c.ID, p.remote)
		}
		dial := func() (net.Conn, error) { return c.Launcher.DialNode(ctx, c.ID, o.node, p.remote) }
		address, err := forward(ctx, a, g, p.local, fmt.Sprintf("port %d", p.remote), dial)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.Out, address)
		a.UI.Note("%s reaches port %d of %s, until Ctrl-C", address, p.remote, c.ID)
	}
	return g.Wait()
}

// rayDashboardPort is where Ray's documentation has the dashboard. On launchers where several heads share a host each dashboard has a port of its own.
const rayDashboardPort = 8265

// dashboardPort is the port of the cluster's dashboard on the head's node, rayDashboardPort where nothing else is known.
func dashboardPort(ctx context.Context, a *app.App, c *app.Cluster) int {
	s, err := c.Status(ctx)
	if err != nil {
		return rayDashboardPort // whatever is wrong, connections will show it
	}
	address, err := url.Parse(s.Head.Dashboard)
	if err != nil {
		return rayDashboardPort
	}
	port, err := parsePort(address.Port())
	if err != nil || port == 0 || port == rayDashboardPort {
		return rayDashboardPort
	}
	a.UI.Note("the dashboard of %s has port %d on its node; `rayctl dashboard %s` also sends its token", c.ID, port, c.ID)
	return port
}

// forward listens on a port of loopback, 0 is any free one, and returns its address. In g, until ctx ends, each connection is passed on to one that dial
// makes. Messages name the target by what.
func forward(ctx context.Context, a *app.App, g *errgroup.Group, port int, what string, dial func() (net.Conn, error)) (string, error) {
	l, err := listenLocal(ctx, a, port)
	if err != nil {
		return "", err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	g.Go(func() error {
		return acceptAll(ctx, l, func(conn net.Conn) {
			remote, err := dial()
			if err != nil {
				a.UI.Warn("%s: %s", what, app.Sentence(err))
				conn.Close()
				return
			}
			join(conn, remote)
		})
	})
	return l.Addr().String(), nil
}

// acceptAll handles each connection on its own until ctx ends.
func acceptAll(ctx context.Context, l net.Listener, handle func(net.Conn)) error {
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("accepting connections: %w", err)
		}
		go handle(conn)
	}
}

// join copies in both directions. It passes an end of file on by closing only that direction; the other one goes on until its own end of file. An idle
// connection ends only when the far end answers the end of file, because join cannot know whether the near end still reads. A connection that cannot
// half-close is closed completely, although answers are lost: otherwise it would never end. No launcher has such connections. kubectl port-forward
// also ends one direction of its stream.
func join(a, b net.Conn) {
	done := make(chan struct{}, 2)
	pass := func(to, from net.Conn) {
		_, err := io.Copy(to, from)
		// Any other error of closeWrite is a broken connection, which the other copy finds after the data that came before.
		if err != nil || errors.Is(closeWrite(to), errors.ErrUnsupported) {
			to.Close()
		}
		done <- struct{}{}
	}
	go pass(a, b)
	go pass(b, a)
	<-done
	<-done
	a.Close()
	b.Close()
}

// closeWrite ends one direction of a connection; ErrUnsupported if the connection cannot do this.
func closeWrite(c net.Conn) error {
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
