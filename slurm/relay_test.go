package slurm

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/keeper"
	"github.com/rayctl/rayctl/launcher/spec"
	"github.com/rayctl/rayctl/templates"
)

// relayHere is a way whose far end is this machine.
func relayHere(t *testing.T) *way {
	t.Helper()
	dir, err := templates.WriteKeeper(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &way{ways: &ways{open: map[string]*way{}}, l: New(Config{}), argv: []string{"python3", "-E", "-s", "-u", filepath.Join(dir, templates.SlurmRelay)}}
	t.Cleanup(w.close)
	return w
}

// echo answers everything it is sent, once it was sent all.
func echo(t *testing.T) string {
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
				_, _ = io.Copy(conn, conn) // the test looks at what came back
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
			conn, err := w.dial(context.Background(), address)
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
	conn, err := w.dial(context.Background(), "127.0.0.1:1")
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if err == nil {
		t.Error("a port that nobody listens on answered")
	}
}

// A way that was cut is opened again by the next connection.
func TestRelayHeals(t *testing.T) {
	w, address := relayHere(t), echo(t)
	for i := range 2 {
		conn, err := w.dial(context.Background(), address)
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
		conn, err := w.dial(context.Background(), address)
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
	if _, err := w.dial(ctx, address); !errors.Is(err, context.Canceled) {
		t.Errorf("a dial that was cancelled: %v", err)
	}
}

// A far end that hangs is found out by whoever waits, and what a command says that ends is told.
func TestRelayIsSilent(t *testing.T) {
	w := &way{ways: &ways{open: map[string]*way{}}, l: New(Config{}), argv: []string{"sleep", "1000"}}
	failed := make(chan error)
	go func() {
		_, err := w.dial(context.Background(), "127.0.0.1:1")
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
	if err := <-failed; err == nil || !strings.Contains(err.Error(), "nothing was heard for 1h") {
		t.Errorf("a far end that hangs: %v", err)
	}
	w.argv = []string{"bash", "-c", "echo srun: error: Invalid job id specified >&2; exit 1"}
	if _, err := w.dial(context.Background(), "127.0.0.1:1"); err == nil || !strings.HasSuffix(err.Error(), "cut: Invalid job id specified") {
		t.Errorf("a command that fails: %v", err)
	}
}

// Both pipes are full and nobody reads: a writer takes what the far end has to say, or both would wait for each other.
func TestRelayTakesWhileItWrites(t *testing.T) {
	w, address := relayHere(t), echo(t)
	sent := make([]byte, 3<<20)
	_, _ = rand.Read(sent) // never fails (crypto/rand)
	conn, err := w.dial(context.Background(), address)
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

func TestFiles(t *testing.T) {
	f, ctx, dir := &files{runner: Here{}}, t.Context(), t.TempDir()
	t.Cleanup(f.close)
	name, content := filepath.Join(dir, "sub", "a b$(id)'\"\n"), make([]byte, 3<<20+5)
	_, _ = rand.Read(content) // never fails (crypto/rand)
	if err := f.write(ctx, name, bytes.NewReader(content), true); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := f.write(ctx, name, bytes.NewReader(nil), true); !errors.Is(err, os.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
	got, err := io.ReadAll(&reader{ctx: ctx, files: f, path: name, offset: 7})
	if err != nil || !bytes.Equal(got, content[7:]) {
		t.Errorf("read %d bytes: %v", len(got), err)
	}
	if left, err := f.names(ctx, filepath.Dir(name)); err != nil || len(left) != 1 {
		t.Errorf("files: %q, %v", left, err)
	}
	if err := f.writeBytes(ctx, "/proc/no/such", nil); err == nil {
		t.Error("wrote into /proc")
	}
	if err := f.remove(ctx, filepath.Dir(name), filepath.Join(dir, "nothing")); err != nil {
		t.Error(err)
	}
}

// holding is a runner whose commands' standard error stays open when they have ended, as an ssh that leaves a master behind.
type holding struct{ Here }

func (holding) Command(ctx context.Context, argv ...string) *exec.Cmd {
	return Here{}.Command(ctx, append([]string{"sh", "-c", `sleep 5 & exec "$@"`, "sh"}, argv...)...)
}

// A session that has ended is not used again, even if its end was not noticed.
func TestFilesHeal(t *testing.T) {
	f, ctx := &files{runner: holding{}}, t.Context()
	if _, err := f.kind(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	if err := f.session.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for ended := false; !ended; time.Sleep(time.Millisecond) {
		_, _, err := f.session.send("kind", map[string]any{"path": "/"})
		ended = err != nil
	}
	if kind, err := f.kind(ctx, "/"); err != nil || kind == "" {
		t.Errorf("after a cut: %q, %v", kind, err)
	}
	f.close()
}

// The keeper's last word may be heard before its result is seen, and before the nodes are free.
func TestLastWordIsNotTheEnd(t *testing.T) {
	c := &cluster{name: "x", record: &record{Spec: &spec.ClusterSpec{}}, state: &keeper.State{Phase: keeper.PhaseGone, Exit: &keeper.Exit{Cause: "succeeded"}}}
	if s := c.living(Job{}); s.Phase != launcher.Draining || s.Exit != nil {
		t.Errorf("a cluster that Slurm has not released: %s, %+v", s.Phase, s.Exit)
	}
}

// A watch tells of the first look and of each change, and ends when the way is cut.
func TestFilesWatch(t *testing.T) {
	f, name := &files{runner: Here{}}, filepath.Join(t.TempDir(), "x")
	changes, err := f.watch(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}
	<-changes
	if err := os.WriteFile(name, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	<-changes
	f.close()
	if _, open := <-changes; open {
		t.Error("a cut watch goes on")
	}
}
