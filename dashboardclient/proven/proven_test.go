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

// TestOwn: a connection to this user's own server is proven when it has been accepted, not before.
func TestOwn(t *testing.T) {
	linux(t)
	for _, s := range servers {
		l, address := listener(t, s)
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
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

// TestStranger: a connection that another user has accepted is refused.
func TestStranger(t *testing.T) {
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
