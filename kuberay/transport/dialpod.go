package transport

import (
	"context"
	"fmt"
	"net"
)

// ReachPod begins a port-forward to a pod and ends it: the API server decides then whether the user may.
func ReachPod(ctx context.Context, a API, pod string) error {
	s, err := within(ctx, connectTimeout, func() (*session, error) { return a.forward(pod) })
	if err != nil {
		return a.Explain(err, "create", "pods/portforward")
	}
	return s.Close()
}

// DialPod connects to a port of a pod by a port-forward of its own.
func DialPod(ctx context.Context, a API, pod string, port int) (net.Conn, error) {
	s, err := within(ctx, connectTimeout, func() (*session, error) { return a.forward(pod) })
	if err != nil {
		return nil, a.Explain(err, "create", "pods/portforward")
	}
	conn, err := within(ctx, streamTimeout, func() (*streamConn, error) { return s.stream(int32(port), func() { _ = s.Close() }) })
	if err != nil {
		_ = s.Close() // the stream's error is the one to report
		return nil, fmt.Errorf("connect to port %d of %s: %w", port, pod, err)
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
