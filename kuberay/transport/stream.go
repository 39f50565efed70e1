package transport

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
)

// stream opens the pair of streams that is one connection to a port (client-go's portforward does the same behind a listener).
func (s *session) stream(port int32, broken func()) (*streamConn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(int(port)))
	headers.Set(corev1.PortForwardRequestIDHeader, strconv.FormatInt(s.next.Add(1), 10))
	failed, err := s.conn.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	failed.Close() // we write nothing there
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := s.conn.CreateStream(headers)
	if err != nil {
		s.conn.RemoveStreams(failed)
		return nil, err
	}
	c := &streamConn{session: s, data: data, failed: failed, ended: make(chan struct{})}
	go c.awaitFailure(broken)
	return c, nil
}

// streamConn is one connection to a port of a pod.
type streamConn struct {
	session      *session
	data, failed httpstream.Stream
	close        sync.Once
	ended        chan struct{}
	failure      error
}

// awaitFailure reads the kubelet's error if it cannot reach the port. The whole connection is useless after that: containerd leaves it
// half open.
func (c *streamConn) awaitFailure(broken func()) {
	defer close(c.ended)
	text, err := io.ReadAll(c.failed)
	switch {
	case len(text) > 0:
		c.failure = errors.New(string(text))
	case err != nil:
		c.failure = err
	default:
		return
	}
	broken()
}

func (c *streamConn) Read(p []byte) (int, error) {
	n, err := c.data.Read(p)
	if err == nil {
		return n, nil
	}
	select {
	case <-c.ended:
		if c.failure != nil {
			return n, c.failure
		}
	default:
	}
	return n, err
}

func (c *streamConn) Write(p []byte) (int, error) { return c.data.Write(p) }

// CloseWrite ends the stream to the far end; reading goes on, as in kubectl's port-forward. The program in the pod may see it only at the end of
// the whole connection, which containerd closes a second later even if the program still writes.
func (c *streamConn) CloseWrite() error { return c.data.Close() }

func (c *streamConn) Close() error {
	c.close.Do(func() {
		_ = c.data.Reset() // a stream that is broken already needs no end
		_ = c.failed.Reset()
		c.session.conn.RemoveStreams(c.data, c.failed)
	})
	return nil
}

// The streams have no addresses and no deadlines; whoever needs a limit closes the connection.
func (c *streamConn) LocalAddr() net.Addr              { return podAddr("client") }
func (c *streamConn) RemoteAddr() net.Addr             { return podAddr(c.session.pod) }
func (c *streamConn) SetDeadline(time.Time) error      { return nil }
func (c *streamConn) SetReadDeadline(time.Time) error  { return nil }
func (c *streamConn) SetWriteDeadline(time.Time) error { return nil }

type podAddr string

func (a podAddr) Network() string { return "port-forward" }
func (a podAddr) String() string  { return string(a) }
