// Package proven connects to processes of this user on this machine, and accepts connections from them alone.
//
// Any user of a machine can listen on a port on which nobody listens, such as that of a cluster that has just ended, and would be sent its token. The kernel
// shows who has the other end of a connection (proc(5), /proc/net/tcp), but only once the server has accepted it. Only Linux has this table; elsewhere nothing is proven.
// keeper/rayctl_keeper/host/proof.py has the same rules.
package proven

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/lastaddress"
)

// tables has the sockets of this machine that a server for IPv4, or for both protocols, has accepted.
var tables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

const (
	firstPause   = time.Millisecond // between two looks, doubled each time
	longestPause = 50 * time.Millisecond
)

// StrangerError says that another user has the other end of a connection.
type StrangerError struct{ Port, User int }

func (e *StrangerError) Error() string {
	return fmt.Sprintf("port %d of this machine belongs to another user (uid %d)", e.Port, e.User)
}

// Dial returns a function that connects as lastaddress.Dialer does, and calls Require. The timeout is for both.
func Dial(timeout time.Duration) func(ctx context.Context, network, address string) (net.Conn, error) {
	d := &lastaddress.Dialer{Dialer: net.Dialer{KeepAlive: 15 * time.Second}}
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
// user has, and the context's error if nobody does. Connections to other machines are not examined: their processes cannot be seen from here.
func Require(ctx context.Context, conn net.Conn) error {
	local, remote, ok := ends(conn)
	if runtime.GOOS != "linux" || !ok {
		return nil
	}
	if local.Addr() != remote.Addr() && !remote.Addr().IsLoopback() { // on one machine the kernel gives both ends the same address
		return nil
	}
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		uid, known := peer(conn)
		if known && (uid == os.Geteuid() || uid == 0) {
			return nil
		}
		if known {
			return &StrangerError{Port: int(remote.Port()), User: uid}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until a server accepts the connection to %s: %w", remote, ctx.Err())
		case <-time.After(pause):
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
	return owner([]string{row(remote, local), row(mapped(remote), mapped(local))})
}

// plain is an address without a zone; an IPv4 address is one, also where the socket is of IPv6.
func plain(a *net.TCPAddr) netip.AddrPort {
	p := a.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap().WithZone(""), p.Port())
}

// mapped is the same address as a server for both protocols has it.
func mapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
}

// row is how the line of a socket with these addresses begins, after its number.
func row(local, remote netip.AddrPort) string { return " " + word(local) + " " + word(remote) + " " }

// word is an address as the tables have it: words of the machine's byte order, in hexadecimal digits.
func word(a netip.AddrPort) string {
	var out strings.Builder
	for b := a.Addr().AsSlice(); len(b) > 0; b = b[4:] {
		fmt.Fprintf(&out, "%08X", binary.NativeEndian.Uint32(b))
	}
	return fmt.Sprintf("%s:%04X", out.String(), a.Port())
}

// owner is the user of the socket in the first of these lines that the tables have; known is false if there is none, or if no process has accepted it.
func owner(rows []string) (uid int, known bool) {
	for _, table := range tables {
		text, err := os.ReadFile(table)
		if err != nil {
			continue // a kernel without IPv6
		}
		for _, wanted := range rows {
			_, rest, found := strings.Cut(string(text), wanted)
			rest, _, _ = strings.Cut(rest, "\n")
			f := strings.Fields(rest) // state, queues, timer, retransmits, uid, timeout, inode: before accept(2) uid and inode are 0
			if !found || len(f) < 7 || f[6] == "0" {
				continue
			}
			if uid, err := strconv.Atoi(f[4]); err == nil {
				return uid, true
			}
		}
	}
	return 0, false
}
