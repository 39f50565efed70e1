package proven_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/dashboardclient/proven"
	"github.com/rayctl/rayctl/test/needs"
)

const (
	stranger = 12346
	accepts  = "RAYCTL_PROVEN_ACCEPTS" // this test binary accepts a connection from its first extra file
)

func TestMain(m *testing.M) {
	if os.Getenv(accepts) != "" {
		l, err := net.FileListener(os.NewFile(3, "listener"))
		if err == nil {
			_, err = l.Accept()
		}
		if err != nil {
			panic(err)
		}
		select {}
	}
	os.Exit(m.Run())
}

// servers are where a server listens and where a client connects to it.
var servers = [][2]string{{"127.0.0.1:0", "127.0.0.1"}, {"0.0.0.0:0", "127.0.0.2"}, {":0", "127.0.0.1"}, {":0", "::1"}}

// TestOwnServerIsProven: a connection to this user's own server is proven when it has been accepted, not before.
func TestOwnServerIsProven(t *testing.T) {
	linux(t)
	for _, s := range servers {
		l, conn := dialed(t, s)
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := proven.Require(ctx, conn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: proven before it was accepted: %v", s, err)
		}
		cancel()
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer accepted.Close()
		if err := proven.Require(t.Context(), conn); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
}

// TestOtherUsersServerIsRefused: a connection that another user has accepted is refused.
func TestOtherUsersServerIsRefused(t *testing.T) {
	linux(t)
	needs.Root(t)
	for _, s := range servers {
		l, address := listener(t, s)
		file, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		c := exec.CommandContext(t.Context(), "/proc/self/exe")
		c.Env, c.ExtraFiles, c.Stderr = []string{accepts + "=1"}, []*os.File{file}, os.Stderr
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: stranger, Gid: stranger}}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		conn, err := proven.Dial(time.Minute)(t.Context(), "tcp", address)
		var refused *proven.StrangerError
		if !errors.As(err, &refused) || refused.User != stranger {
			t.Errorf("%v: %v, %v", s, conn, err)
		}
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

// TestDroppedConnectionIsTold: who waits until a server accepts a connection learns at once that the server has dropped it, however it did that.
func TestDroppedConnectionIsTold(t *testing.T) {
	linux(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, drop := range map[string]func(l *net.TCPListener) error{
		"unaccepted": (*net.TCPListener).Close,
		"closed": func(l *net.TCPListener) error {
			accepted, err := l.Accept()
			return errors.Join(err, accepted.Close())
		},
		"reset": func(l *net.TCPListener) error {
			accepted, err := l.AcceptTCP()
			return errors.Join(err, accepted.SetLinger(0), accepted.Close())
		},
	} {
		for _, s := range servers {
			l, conn := dialed(t, s)
			waiter := make(chan error)
			go func() { waiter <- proven.Require(ctx, conn) }()
			if err := drop(l); err != nil {
				t.Fatal(err)
			}
			// Required while it was accepted for a moment, it was proven.
			var dropped *proven.ClosedError
			if err := <-waiter; err != nil && !errors.As(err, &dropped) {
				t.Errorf("%s, %v: %v", name, s, err)
			}
			if err := proven.Require(ctx, conn); !errors.As(err, &dropped) {
				t.Errorf("%s, %v: later: %v", name, s, err)
			}
		}
	}
}

// dialed is a listener, and a connection that it has not accepted.
func dialed(t *testing.T, s [2]string) (*net.TCPListener, net.Conn) {
	t.Helper()
	l, address := listener(t, s)
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return l, conn
}

func listener(t *testing.T, s [2]string) (l *net.TCPListener, address string) {
	t.Helper()
	any, err := net.Listen("tcp", s[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { any.Close() })
	l = any.(*net.TCPListener)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return l, net.JoinHostPort(s[1], port)
}

func linux(t *testing.T) {
	t.Helper()
	needs.That(t, runtime.GOOS == "linux", "only Linux shows who has a socket")
}

// BenchmarkRequire is the cost of a proof beside the 12,000 sockets of others.
func BenchmarkRequire(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	var conn net.Conn
	for range 6000 {
		conn, err = net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		accepted, err := l.Accept()
		if err != nil {
			b.Fatal(err)
		}
		defer accepted.Close()
	}
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := proven.Require(b.Context(), conn); err != nil {
			b.Fatal(err)
		}
	}
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	used := time.Duration(after.Utime.Nano() - before.Utime.Nano() + after.Stime.Nano() - before.Stime.Nano())
	b.ReportMetric(500*used.Seconds()/float64(b.N), "cpu-s/500-proofs")
}
