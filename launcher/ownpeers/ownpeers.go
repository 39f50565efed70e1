// Package ownpeers keeps other users of the machine out of a loopback listener.
package ownpeers

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Listener is a loopback listener that accepts only this user and root, because any user of the machine may connect to loopback. On systems other
// than Linux a connection's user is unknown, and Listener accepts all.
type Listener struct {
	net.Listener
	// Refused is called with the id of another user whose connection was closed, once for each user. That user gets no reason.
	Refused func(uid int)
	told    map[int]bool
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if scarce(err) {
			time.Sleep(pause) // the connection waits, and nothing says when there is a descriptor
			continue
		}
		if err != nil || runtime.GOOS != "linux" {
			return conn, err
		}
		uid, found := owner(conn)
		if found && (uid == 0 || uid == os.Geteuid()) {
			return conn, nil
		}
		conn.Close()
		if found {
			l.refuse(uid)
		}
	}
}

// pause of a listener that cannot accept.
const pause = 50 * time.Millisecond

// scarce tells whether the process or the system has no descriptor or memory for a connection now: somebody opens too many.
func scarce(err error) bool {
	return slices.ContainsFunc([]error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED}, func(e error) bool { return errors.Is(err, e) })
}

// refuse calls Refused, once for each user.
func (l *Listener) refuse(uid int) {
	if l.Refused == nil || l.told[uid] {
		return
	}
	if l.told == nil {
		l.told = map[int]bool{}
	}
	l.told[uid] = true
	l.Refused(uid)
}

// owner looks up the other end in Linux' connection tables, where local and remote address are swapped (proc_pid_net(5)).
func owner(conn net.Conn) (uid int, found bool) {
	far, ok := conn.RemoteAddr().(*net.TCPAddr)
	near, ok2 := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !ok2 {
		return 0, false
	}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} { // a program may use an IPv6 socket for IPv4
		if uid, found := ownerOf(table, hexAddress(far), hexAddress(near)); found {
			return uid, true
		}
	}
	return 0, false
}

// ownerOf looks a connection up. A connection closed by its program has inode 0 and seems to be root's; it is not found.
func ownerOf(table, local, remote string) (uid int, found bool) {
	f, err := os.Open(table)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		col := strings.Fields(lines.Text()) // sl local remote st tx:rx tr:when retrnsmt uid timeout inode
		if len(col) < 10 || !strings.HasSuffix(col[1], local) || !strings.HasSuffix(col[2], remote) || col[9] == "0" {
			continue
		}
		uid, err := strconv.Atoi(col[7])
		return uid, err == nil
	}
	return 0, false
}

// hexAddress is an IPv4 address in the format of those tables: bytes of a little-endian machine, port.
func hexAddress(a *net.TCPAddr) string {
	ip := a.IP.To4()
	if ip == nil {
		return "?"
	}
	return fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], a.Port)
}
