package kuberay

import (
	"context"
	"net"

	"github.com/rayctl/rayctl/kuberay/transport"
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
	return transport.DialPod(ctx, c.api(), pod.Name, port)
}
