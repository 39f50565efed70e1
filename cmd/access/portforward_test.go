package access

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/launcher/runstate"
)

// tcpPair is a connection of this machine to itself.
func tcpPair(t *testing.T) (near, far *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dialled, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dialled.Close() })
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { accepted.Close() })
	return dialled.(*net.TCPConn), accepted.(*net.TCPConn)
}

// joined joins a client's connection to a node's, and closes ended afterwards.
func joined(a, b net.Conn) chan struct{} {
	ended := make(chan struct{})
	go func() {
		join(a, b)
		close(ended)
	}()
	return ended
}

// A server may answer after the end of file: the client has closed only its own direction.
func TestJoinPassesTheEndOn(t *testing.T) {
	client, local := tcpPair(t)
	remote, server := tcpPair(t)
	ended := joined(local, remote)
	if _, err := client.Write([]byte("question")); err != nil {
		t.Fatal(err)
	}
	client.CloseWrite()
	if got, err := io.ReadAll(server); err != nil || string(got) != "question" {
		t.Errorf("the server got %q: %v", got, err)
	}
	if _, err := server.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	server.Close()
	if got, err := io.ReadAll(client); err != nil || string(got) != "answer" {
		t.Errorf("the client got %q: %v", got, err)
	}
	<-ended
}

// A client that resets its connection ends the node's connection, although the server there is silent.
func TestJoinPassesAResetOn(t *testing.T) {
	client, local := tcpPair(t)
	remote, server := tcpPair(t)
	ended := joined(local, remote)
	client.SetLinger(0)
	client.Close()
	<-ended
	if n, err := server.Read(make([]byte, 1)); err == nil {
		t.Errorf("the server still gets %d bytes", n)
	}
}

// A connection that cannot half-close ends with the client's; otherwise its server would wait forever.
func TestJoinEndsWhatCannotHalfClose(t *testing.T) {
	client, local := tcpPair(t)
	remote, server := net.Pipe()
	ended := joined(local, remote)
	client.Close()
	<-ended
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the server was not told: %v", err)
	}
}

func TestParsePorts(t *testing.T) {
	for text, want := range map[string]forwardedPort{"8000": {8000, 8000}, "1:2": {1, 2}, ":8000": {0, 8000}} {
		if got, err := parsePorts(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "65536", "a:b", "1:", "1:2:3", "-1"} {
		if got, err := parsePorts(text); app.ExitCode(err) != runstate.CodeUsage {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}
