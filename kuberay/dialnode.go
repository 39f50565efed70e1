package kuberay

import (
	"context"
	"fmt"
	"net"

	"github.com/rayctl/rayctl/launcher"
)

// DialNode connects to a port of a node's pod by a port-forward of its own.
func (l *Launcher) DialNode(ctx context.Context, id launcher.ID, node string, port int) (net.Conn, error) {
	c, err := l.kube(ctx)
	if err != nil {
		return nil, err
	}
	pod, err := c.node(ctx, id, node)
	if err != nil {
		return nil, err
	}
	s, err := within(ctx, connectTimeout, func() (*session, error) { return c.forward(pod.Name) })
	if err != nil {
		return nil, explain(err, "create", "pods/portforward", c)
	}
	conn, err := within(ctx, streamTimeout, func() (*streamConn, error) { return s.stream(int32(port), func() { _ = s.Close() }) })
	if err != nil {
		_ = s.Close() // the stream's error is the one to tell
		return nil, fmt.Errorf("connect to port %d of %s: %w", port, pod.Name, err)
	}
	return nodeConn{conn, s}, nil
}

// nodeConn ends its port-forward with itself.
type nodeConn struct {
	*streamConn
	session *session
}

// Close closes both.
func (c nodeConn) Close() error {
	_ = c.streamConn.Close() // never fails
	return c.session.Close()
}
