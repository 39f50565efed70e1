package proven

import (
	"errors"
	"net"
	"os"
	"runtime"
	"slices"
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
		uid, found := peer(conn)
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
