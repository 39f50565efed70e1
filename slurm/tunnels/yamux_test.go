package tunnels

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/hashicorp/yamux"

	keeperzip "github.com/rayctl/rayctl/keeper"
	"github.com/rayctl/rayctl/slurm/remote"
	"github.com/rayctl/rayctl/slurm/script"
)

// yamuxHere is a dialer through yamux's own client, whose far end is relay.py on this machine.
func yamuxHere(tb testing.TB) func(address string) (net.Conn, error) {
	tb.Helper()
	program, err := keeperzip.Write(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	s, err := openNodeStream(context.Background(), remote.Here{}, []string{"python3", "-E", "-s", "-u", program, script.RoleRelay})
	if err != nil {
		tb.Fatal(err)
	}
	settings := yamux.DefaultConfig()
	settings.MaxStreamWindowSize = windowSize
	settings.LogOutput = io.Discard
	session, err := yamux.Client(s, settings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = session.Close() // closes the stream
		<-s.ended
	})
	return func(address string) (net.Conn, error) {
		conn, err := session.Open()
		if err == nil {
			_, err = io.WriteString(conn, address+"\n")
		}
		return conn, err
	}
}

// dialers are the client here and yamux's.
func dialers(tb testing.TB) map[string]func(address string) (net.Conn, error) {
	tb.Helper()
	ours := relayHere(tb)
	return map[string]func(string) (net.Conn, error){
		"ours":  func(address string) (net.Conn, error) { return ours.Dial(context.Background(), address) },
		"yamux": yamuxHere(tb),
	}
}

// TestRelaySpeaksYamux: relay.py serves yamux's own client, more than one window of bytes in both directions.
func TestRelaySpeaksYamux(t *testing.T) {
	conn, err := yamuxHere(t)(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const size = windowSize + 1<<20
	go func() { _, _ = conn.Write(make([]byte, size)) }() // a failure is seen by the reader
	if n, err := io.CopyN(io.Discard, conn, size); err != nil || n != size {
		t.Errorf("%d bytes came back: %v", n, err)
	}
}

// BenchmarkRoundTrip is one byte there and back, as a request of the dashboard's API that waits for its answer.
func BenchmarkRoundTrip(b *testing.B) {
	for name, dial := range dialers(b) {
		b.Run(name, func(b *testing.B) {
			conn, err := dial(echo(b))
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			one := make([]byte, 1)
			for b.Loop() {
				if _, err := conn.Write(one); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkUpload is what the far end acknowledges of a long upload, as of a package.
func BenchmarkUpload(b *testing.B) {
	const size = 16 << 20
	sink := serving(b, func(conn *net.TCPConn) {
		for {
			if _, err := io.CopyN(io.Discard, conn, size); err != nil {
				return
			}
			if _, err := conn.Write([]byte{1}); err != nil {
				return
			}
		}
	})
	for name, dial := range dialers(b) {
		b.Run(name, func(b *testing.B) {
			conn, err := dial(sink)
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			b.SetBytes(size)
			content, one := make([]byte, size), make([]byte, 1)
			for b.Loop() {
				if _, err := conn.Write(content); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(conn, one); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
