package tunnels

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
)

// relayHere is a way whose far end is this machine.
func relayHere(t testing.TB) *nodeTunnel {
	t.Helper()
	program, err := keeperzip.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := newNodeTunnel(remote.Here{}, []string{"python3", "-E", "-s", "-u", program, script.RoleRelay})
	t.Cleanup(func() { w.Close() })
	return w
}

// echo answers everything it is sent.
func echo(t testing.TB) string {
	return serving(t, func(conn *net.TCPConn) { _, _ = io.Copy(conn, conn) }) // the test looks at what came back
}

// serving handles each connection to the returned address, and closes it after that.
func serving(t testing.TB, handle func(*net.TCPConn)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				handle(conn.(*net.TCPConn))
			}()
		}
	}()
	return listener.Addr().String()
}

// Many connections at once, each with more than its window, come through byte for byte.
func TestRelayCarriesManyConnections(t *testing.T) {
	w, address := relayHere(t), echo(t)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			sent := make([]byte, 1<<20+17)
			_, _ = rand.Read(sent) // never fails (crypto/rand)
			conn, err := w.Dial(context.Background(), address)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			go func() { _, _ = conn.Write(sent) }() // a failure is seen by the reader
			got := make([]byte, len(sent))
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
				t.Errorf("what came back differs: %v", err)
			}
		})
	}
	group.Wait()
}

func TestRelayTellsOfRefusedConnections(t *testing.T) {
	w := relayHere(t)
	conn, err := w.Dial(context.Background(), "127.0.0.1:1")
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("a port that nobody listens on answered")
	}
	conn, err = w.Dial(context.Background(), echo(t)) // the relay runs, and only that port refuses
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		t.Error(err)
	}
}

// A way that was cut is opened again by the next connection.
func TestRelayHeals(t *testing.T) {
	w, address := relayHere(t), echo(t)
	for i := range 2 {
		conn, err := w.Dial(context.Background(), address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
			t.Fatalf("round %d: %v", i, err)
		}
		if err := w.stream.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("a cut connection still speaks")
		}
		if w.session.alive() {
			t.Error("a cut way is taken for whole")
		}
	}
}

// Whoever waits reads for all: one who leaves, closed or out of time, lets another go on.
func TestRelayReadersLeave(t *testing.T) {
	w, address := relayHere(t), echo(t)
	dial := func() net.Conn {
		conn, err := w.Dial(context.Background(), address)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	reads, stays, late := dial(), dial(), dial()
	ended, answer := make(chan error), make(chan byte)
	go func() {
		_, err := reads.Read(make([]byte, 1))
		ended <- err
	}()
	go func() {
		one := make([]byte, 1)
		_, _ = io.ReadFull(stays, one) // zero is not what is sent
		answer <- one[0]
	}()
	if err := late.SetReadDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := late.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("out of time: %v", err)
	}
	if err := reads.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("closed while it read: %v", err)
	}
	if _, err := stays.Write([]byte("x")); err != nil || <-answer != 'x' {
		t.Errorf("one who stayed was not served: %v", err)
	}
	_ = late.SetReadDeadline(time.Time{}) // never fails
	if _, err := late.Write([]byte("y")); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadFull(late, make([]byte, 1)); err != nil {
		t.Errorf("after a deadline: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Dial(ctx, address); !errors.Is(err, context.Canceled) {
		t.Errorf("a dial that was cancelled: %v", err)
	}
}

// A caller that waits gets an error if the far end hangs, and the command's output if the command ends.
func TestRelayIsSilent(t *testing.T) {
	w := newNodeTunnel(remote.Here{}, []string{"sleep", "1000"})
	failed := make(chan error)
	go func() {
		_, err := w.Dial(context.Background(), "127.0.0.1:1")
		failed <- err
	}()
	var m *mux
	for reading := false; !reading; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		m = w.session
		w.mu.Unlock()
		if m != nil {
			m.mu.Lock()
			reading, m.heard = m.reader != nil, time.Now().Add(-time.Hour)
			m.mu.Unlock()
		}
	}
	m.ask()
	if !m.alive() {
		t.Fatal("cut before it was asked")
	}
	m.ask()
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "no data arrived for 1h") {
		t.Errorf("a far end that hangs: %v", err)
	}
	w.argv = []string{"bash", "-c", "echo srun: error: Invalid job id specified >&2; exit 1"}
	if _, err := w.Dial(context.Background(), "127.0.0.1:1"); err == nil || !strings.HasSuffix(err.Error(), "lost: Invalid job id specified") {
		t.Errorf("a command that fails: %v", err)
	}
}

// Both pipes are full and nobody reads: a writer also reads what the far end sends, or both would wait for each other.
func TestRelayTakesWhileItWrites(t *testing.T) {
	w, address := relayHere(t), echo(t)
	sent := make([]byte, 3<<20)
	_, _ = rand.Read(sent) // never fails (crypto/rand)
	conn, err := w.Dial(context.Background(), address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(sent))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, sent) {
		t.Errorf("what came back differs: %v", err)
	}
}

// A client that has closed its sending side gets its answer, and sends the end of the stream only once.
func TestRelayHalfCloses(t *testing.T) {
	heard := make(chan []byte)
	address := serving(t, func(conn *net.TCPConn) {
		all, _ := io.ReadAll(conn) // the test looks at what came
		_, _ = conn.Write([]byte("all of it"))
		heard <- all
	})
	inner, err := relayHere(t).Dial(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	conn := inner.(*muxConn)
	sent := make([]byte, 3<<20)
	_, _ = rand.Read(sent) // never fails (crypto/rand)
	if _, err := conn.Write(sent); err != nil {
		t.Fatal(err)
	}
	if err := conn.CloseWrite(); err != nil {
		t.Error(err)
	}
	if again, err := conn.endWriting(); again || err != nil {
		t.Errorf("it would end twice: %v, %v", again, err)
	}
	if _, err := conn.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("a write after the end: %v", err)
	}
	if got := <-heard; !bytes.Equal(got, sent) {
		t.Errorf("%d bytes of %d came", len(got), len(sent))
	}
	if got, err := io.ReadAll(conn); err != nil || string(got) != "all of it" {
		t.Errorf("the answer: %q, %v", got, err)
	}
	if flag := conn.leave(); flag != 0 || len(conn.m.conns) != 1 { // the other one is the stand-in
		t.Errorf("it would say %d where all is said; %d are known", flag, len(conn.m.conns))
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if err := conn.CloseWrite(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("an end after the end: %v", err)
	}
}

// All that a client sent arrives, even if it closes without reading the answer: it sends no reset, which would make the relay drop its buffers.
func TestRelayHearsThoseWhoLeft(t *testing.T) {
	heard := make(chan int64)
	w, address := relayHere(t), serving(t, func(conn *net.TCPConn) {
		n, _ := io.Copy(io.Discard, conn) // the test looks at what came
		heard <- n
	})
	for _, half := range []bool{false, true} {
		conn, err := w.Dial(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		c, want := conn.(*muxConn), uint16(flagFIN)
		_, err = c.Write(make([]byte, 3<<20))
		if half {
			err, want = errors.Join(err, c.CloseWrite()), 0
		}
		flag := c.leave() // Close sends it
		if err := errors.Join(err, c.m.write(frameWindow, flag, c.number, 0, nil)); err != nil || flag != want {
			t.Fatalf("it says %d at its end: %v", flag, err)
		}
		if n := <-heard; n != 3<<20 {
			t.Errorf("%d bytes came (half-closed before: %v)", n, half)
		}
	}
}

// A client leaves with all unread that it takes: nothing comes any more that could be answered by a reset, but its program must not wait for it.
func TestRelayDropsTheUnread(t *testing.T) {
	failed := make(chan error)
	address := serving(t, func(conn *net.TCPConn) {
		for {
			if _, err := conn.Write(make([]byte, muxFrame)); err != nil {
				failed <- err
				return
			}
		}
	})
	w := relayHere(t)
	reads, err := w.Dial(t.Context(), echo(t))
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = reads.Read(make([]byte, 1)) }() // it takes the frames of all
	for _, half := range []bool{false, true} {
		conn, err := w.Dial(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		c := conn.(*muxConn)
		if half {
			err = c.CloseWrite()
		}
		for arrived := 0; arrived < windowSize; time.Sleep(time.Millisecond) {
			c.m.mu.Lock()
			arrived = len(c.arrived)
			c.m.mu.Unlock()
		}
		if err := errors.Join(err, c.Close()); err != nil {
			t.Error(err)
		}
		select {
		case <-failed:
		case <-time.After(time.Minute):
			t.Fatalf("its program still waits (half-closed before: %v)", half)
		}
	}
}
