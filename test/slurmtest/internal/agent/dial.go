//go:build linux

package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
)

// DialSocket is the socket for connections from outside to addresses inside: the first line has the address, "ok" is the answer, then bytes
// are relayed both ways. Sockets in the file system cross network namespaces.
func DialSocket(dir string) string { return filepath.Join(dir, "run", "dial.sock") }

// serveDial serves the socket with the controller's network and names.
func (a *agent) serveDial() error {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "unix", DialSocket(a.cfg.Dir))
	if err != nil {
		return fmt.Errorf("listening for connections into the cluster: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go relayTo(conn)
		}
	}()
	return nil
}

func relayTo(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	address, err := in.ReadString('\n')
	if err != nil {
		return
	}
	var dialer net.Dialer
	out, err := dialer.DialContext(context.Background(), "tcp", strings.TrimSpace(address))
	if err != nil {
		_, _ = fmt.Fprintf(conn, "%v\n", err)
		return
	}
	defer func() { _ = out.Close() }()
	if _, err := io.WriteString(conn, "ok\n"); err != nil {
		return
	}
	Relay(out.(HalfCloser), in, conn.(HalfCloser))
}

// HalfCloser is a connection whose sending side can be closed separately.
type HalfCloser interface {
	net.Conn
	CloseWrite() error
}

// Relay copies in both directions until both ends are closed. Bytes from b come through in, which may have read ahead.
func Relay(a HalfCloser, in io.Reader, b HalfCloser) {
	var wg sync.WaitGroup
	copyTo := func(to HalfCloser, from io.Reader) {
		if _, err := io.Copy(to, from); err != nil { // broken, not ended: neither end can continue
			_, _ = a.Close(), b.Close()
		}
		_ = to.CloseWrite()
	}
	wg.Go(func() { copyTo(a, in) })
	wg.Go(func() { copyTo(b, a) })
	wg.Wait()
}
