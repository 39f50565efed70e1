// Package nodetunnel carries connections to a node of a job over the input and output of one step there (srun), where no other way leads.
//
// Its multiplexer speaks the frames of yamux (github.com/hashicorp/yamux, spec.md), but is not that library, which costs more of a login node's processors:
// there goroutines of the session read and write the frames for all connections. Here who writes writes the frame itself, and of those who wait one reads
// the frames for all. With the same far end on two processors, a 16 MiB upload takes 13 ms with this multiplexer and 31 ms with yamux 0.1.2 (30 and 49 ms while
// two other programs keep both processors busy), and a round trip 44 and 51 µs (equal while the processors are busy): medians, 2026-11-27,
// `go test -run NONE -bench . ./slurm/nodetunnel`. TestRelaySpeaksYamux holds that the far end serves the library, too.
package nodetunnel

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/rayctl/rayctl/slurm/remote"
)

// Tunnel carries connections to one node. Its command is started by the first connection, and again after a cut.
type Tunnel struct {
	runner remote.Runner
	argv   []string

	mu      sync.Mutex
	session *mux
	stream  *stream
}

// New returns the tunnel through a command that runs keeper/rayctl_keeper/slurm/access/relay.py on the node. It starts nothing yet.
func New(r remote.Runner, argv []string) *Tunnel { return &Tunnel{runner: r, argv: argv} }

// Close ends the command, and returns what is closed when it has ended; nil if it did not run.
func (w *Tunnel) Close() (ended <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session == nil {
		return nil
	}
	ended = w.stream.ended
	w.session.cut(net.ErrClosed) // it closes the stream
	w.session, w.stream = nil, nil
	return ended
}

// IsOpen reports whether the stream is there already.
func (w *Tunnel) IsOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session != nil && w.session.alive()
}

// Dial opens a connection to an address as seen from the node.
func (w *Tunnel) Dial(ctx context.Context, address string) (net.Conn, error) {
	for {
		session, s, fresh, err := w.connect(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := session.open(ctx)
		if err == nil {
			_, err = io.WriteString(conn, address+"\n")
		}
		switch {
		case err == nil:
			return conn, nil
		case !fresh && !session.alive() && ctx.Err() == nil:
			continue // cut while nobody used it
		case !session.alive():
			<-s.ended // its output is complete
			if s.said.LastLine() != "" {
				return nil, fmt.Errorf("the connection through srun was lost: %s", remote.Complaint(s.said))
			}
		}
		return nil, err
	}
}

// connect returns the session, a fresh one where there is none or it was cut.
func (w *Tunnel) connect(ctx context.Context) (m *mux, s *stream, fresh bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session != nil && w.session.alive() {
		return w.session, w.stream, false, nil
	}
	if s, err = openStream(ctx, w.runner, w.argv); err != nil {
		return nil, nil, false, err
	}
	w.session, w.stream = newMux(s), s
	return w.session, s, true, nil
}
