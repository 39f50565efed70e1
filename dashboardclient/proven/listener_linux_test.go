package proven

import (
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/test/needs"
)

// TestOfAnotherUser: another user's connection is closed unread, also over an IPv6 socket, and so is one that its program closed at
// once. This user's next connection is accepted.
func TestOfAnotherUser(t *testing.T) {
	needs.Root(t)
	all, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan int, 10)
	l := &Listener{Listener: all, Refused: func(uid int) { refused <- uid }}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	taken := make(chan string)
	go func() {
		defer close(taken)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			said := make([]byte, 6)
			io.ReadFull(conn, said)
			conn.Close()
			taken <- string(said)
		}
	}()
	for name, to := range map[string]syscall.Sockaddr{
		"IPv4":                 &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}},
		"IPv6":                 &syscall.SockaddrInet6{Port: port, Addr: [16]byte{10: 0xff, 0xff, 127, 0, 0, 1}},
		"IPv4, closed at once": &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}},
	} {
		foreign := connectAs(t, 12347, to)
		foreign.SetDeadline(time.Now().Add(time.Minute))
		foreign.Write([]byte("theirs"))
		if name != "IPv4, closed at once" {
			if n, err := foreign.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
				t.Errorf("%s: another user's connection is not closed: %d bytes, %v", name, n, err)
			}
		}
		foreign.Close()
		own := connectAs(t, 0, to)
		own.Write([]byte("mine!!"))
		select {
		case said := <-taken:
			if said != "mine!!" {
				t.Errorf("%s: a connection with %q was taken", name, said)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: no connection was taken, not our own either", name)
		}
		own.Close()
	}
	if uid := <-refused; uid != 12347 || len(refused) > 0 {
		t.Errorf("told of user %d, and of %d more", uid, len(refused))
	}
}

// connectAs is a connection whose socket belongs to a user: a socket belongs to the fsuid of the creating thread (sock_alloc in
// Linux). The thread ends with its goroutine.
func connectAs(t *testing.T, uid int, to syscall.Sockaddr) *os.File {
	t.Helper()
	family := syscall.AF_INET
	if _, ok := to.(*syscall.SockaddrInet6); ok {
		family = syscall.AF_INET6
	}
	type made struct {
		fd  int
		err error
	}
	result := make(chan made)
	go func() {
		runtime.LockOSThread() // without unlocking
		if err := syscall.Setfsuid(uid); err != nil {
			result <- made{-1, err}
			return
		}
		fd, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err == nil {
			err = syscall.Connect(fd, to)
		}
		if err == nil {
			err = syscall.SetNonblock(fd, true) // for deadlines
		}
		result <- made{fd, err}
	}()
	r := <-result
	if r.err != nil {
		t.Fatal(r.err)
	}
	f := os.NewFile(uintptr(r.fd), "connection")
	t.Cleanup(func() { f.Close() })
	return f
}

// TestOwner recognises a connection of this user, and takes no other socket for it. The kernel's answer about one socket and its tables of all of them say the same.
func TestOwner(t *testing.T) {
	for address, host := range map[string]string{"127.0.0.1:0": "127.0.0.1", "[::1]:0": "::1", ":0": "127.0.0.1"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		near, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.ParseIP(host), Port: l.Addr().(*net.TCPAddr).Port})
		if err != nil {
			t.Fatal(err)
		}
		defer near.Close()
		a, b, _ := ends(near)
		nobody := netip.AddrPortFrom(a.Addr(), 1)
		check := func(what string, local, remote netip.AddrPort, wanted bool) {
			t.Helper()
			for name, of := range map[string]func(netip.AddrPort, netip.AddrPort) (int, bool){"owner": owner, "tabled": tabled} {
				if uid, known := of(local, remote); known != wanted || known && uid != os.Geteuid() {
					t.Errorf("%s, %s: %s is of %d, %t", address, name, what, uid, known)
				}
			}
		}
		check("a connection that was not accepted", b, a, false)
		far, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		check("this end", a, b, true)
		check("the other end", b, a, true)
		check("the listener", b, nobody, false)
		check("nothing", nobody, a, false)
	}
	needs.That(t, answers.Load(), "the kernel answers no questions about one socket (sock_diag(7)): only its tables were tested")
}

// scarceListener has no descriptors for a while.
type scarceListener struct {
	net.Listener
	tries int
}

func (l *scarceListener) Accept() (net.Conn, error) {
	if l.tries++; l.tries < 3 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return l.Listener.Accept()
}

// TestListenerOutlivesLackOfDescriptors: the listener goes on after it has had no file descriptors for a while.
func TestListenerOutlivesLackOfDescriptors(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	own := &Listener{Listener: &scarceListener{Listener: l}}
	defer own.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := own.Accept()
	if err != nil {
		t.Fatal(err)
	}
	far.Close()
}
