//go:build linux

package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/rayctl/rayctl/test/slurmtest/internal/agent"
)

// Dial connects to "host:port" as seen by the controller: any node, the login nodes, "ctl" itself.
func (c *Cluster) Dial(ctx context.Context, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", agent.DialSocket(c.Dir))
	if err != nil {
		return nil, fmt.Errorf("connecting into the cluster: %w", err)
	}
	if _, err := io.WriteString(conn, address+"\n"); err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connecting into the cluster: %w", err)
	}
	answer, err := readLine(conn)
	if err == nil && answer != "ok" {
		err = errors.New(answer)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connecting to %s inside the cluster: %w", address, err)
	}
	return conn, nil
}

// readLine reads no byte beyond the line's end.
func readLine(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
}

// Bridge makes one address inside the cluster reachable on this machine's loopback.
type Bridge struct {
	Addr string // "127.0.0.1:port"

	cluster  *Cluster
	target   string
	listener net.Listener
	cancel   context.CancelFunc
	mu       sync.Mutex
	conns    map[net.Conn]bool
	refuse   bool
}

// Bridge listens on loopback for connections to an address inside the cluster, until it is closed.
func (c *Cluster) Bridge(ctx context.Context, target string) (*Bridge, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	b := &Bridge{cancel: cancel, Addr: listener.Addr().String(), cluster: c, target: target, listener: listener, conns: map[net.Conn]bool{}}
	go b.serve(ctx)
	return b, nil
}

func (b *Bridge) serve(ctx context.Context) {
	for {
		conn, err := b.listener.Accept()
		if err != nil {
			return
		}
		go b.handle(ctx, conn)
	}
}

func (b *Bridge) handle(ctx context.Context, conn net.Conn) {
	defer func() { _ = conn.Close() }()
	b.mu.Lock()
	refuse := b.refuse
	b.conns[conn] = true
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		delete(b.conns, conn)
		b.mu.Unlock()
	}()
	if refuse {
		return
	}
	out, err := b.cluster.Dial(ctx, b.target)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	agent.Relay(out.(agent.HalfCloser), conn, conn.(agent.HalfCloser))
}

// CutConnections breaks all present connections.
func (b *Bridge) CutConnections() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for conn := range b.conns {
		_ = conn.Close()
	}
}

// Refuse makes new connections fail, or succeed again.
func (b *Bridge) Refuse(refuse bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuse = refuse
}

// Close stops listening and breaks all connections.
func (b *Bridge) Close() {
	b.cancel()
	_ = b.listener.Close()
	b.CutConnections()
}
