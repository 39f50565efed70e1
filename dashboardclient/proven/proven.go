// Package proven connects to processes of this user on this machine, and accepts connections from them alone. Its Dialer connects by name even while the name
// service does not answer.
//
// Any user of a machine can listen on a port on which nobody listens, such as that of a cluster that has just ended, and would be sent its token. The kernel
// tells everybody who has the other end of a connection, but only once the server has accepted it. Only Linux does; elsewhere nothing is proven.
// keeper/rayctl_keeper/host/proof.py has the same rules.
package proven

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"time"
)

// The pauses between two looks grow with the time that the connection has waited: a server that drops the oldest connections in a flood, as the keeper does, must get the
// request soon after it has accepted.
const (
	shortestPause = time.Millisecond
	longestPause  = 50 * time.Millisecond
	pausePart     = 16 // of the time that has passed
)

// StrangerError says that another user has the other end of a connection.
type StrangerError struct{ Port, User int }

func (e *StrangerError) Error() string {
	return fmt.Sprintf("port %d of this machine belongs to another user (uid %d)", e.Port, e.User)
}

// ClosedError says that the server closed the connection before it was known whose process it is: a server that has too many connections drops some. Nothing was
// sent, so another try does no harm.
type ClosedError struct{ Address string }

func (e *ClosedError) Error() string {
	return "the server at " + e.Address + " closed the connection before anything was sent: try again"
}

// Dial returns a function that connects as Dialer does, and calls Require. The timeout is for both.
func Dial(timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &Dialer{Dialer: net.Dialer{KeepAlive: 15 * time.Second}}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if err := Require(ctx, conn); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
}

// Require returns when a process of this user, or of root, who may read this user's secrets anyway, has accepted the connection. It returns a StrangerError if another
// user has, a ClosedError if the server has closed it, and the context's error if nobody accepts it. Connections to other machines are not examined: their processes cannot be seen from here.
func Require(ctx context.Context, conn net.Conn) error {
	local, remote, ok := ends(conn)
	if runtime.GOOS != "linux" || !ok {
		return nil
	}
	if local.Addr() != remote.Addr() && !remote.Addr().IsLoopback() { // on one machine the kernel gives both ends the same address
		return nil
	}
	for begin := time.Now(); ; {
		uid, known := peer(conn)
		if known && (uid == os.Geteuid() || uid == 0) {
			return nil
		}
		if known {
			return &StrangerError{Port: int(remote.Port()), User: uid}
		}
		if closed(conn) {
			return &ClosedError{Address: remote.String()}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until a server accepts the connection to %s: %w", remote, ctx.Err())
		case <-time.After(min(max(time.Since(begin)/pausePart, shortestPause), longestPause)):
		}
	}
}

// ends are the addresses of a TCP connection, this process' own first.
func ends(conn net.Conn) (local, remote netip.AddrPort, ok bool) {
	own, ok := conn.LocalAddr().(*net.TCPAddr)
	far, ok2 := conn.RemoteAddr().(*net.TCPAddr)
	if !ok || !ok2 {
		return local, remote, false
	}
	return plain(own), plain(far), true
}

// peer is the user who has the other end of a connection to this machine; known is false if no process has it, because none has accepted it yet, or its program has
// closed it.
func peer(conn net.Conn) (uid int, known bool) {
	local, remote, ok := ends(conn)
	if !ok {
		return 0, false
	}
	return owner(remote, local)
}

// plain is an address without a zone; an IPv4 address is one, also where the socket is of IPv6.
func plain(a *net.TCPAddr) netip.AddrPort {
	p := a.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}
