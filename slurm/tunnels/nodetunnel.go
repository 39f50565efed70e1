package tunnels

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/rayctl/rayctl/slurm/remote"
)

// nodeTunnel carries connections to a node of a job over the input and output of one step there (srun), where no other way leads. Its command is started by the first connection, and again after a cut.
type nodeTunnel struct {
	runner remote.Runner
	argv   []string

	mu      sync.Mutex
	session *mux
	stream  *nodeStream
}

// newNodeTunnel returns the tunnel through a command that runs keeper/rayctl_keeper/slurm/access/relay.py on the node. It starts nothing yet.
func newNodeTunnel(r remote.Runner, argv []string) *nodeTunnel {
	return &nodeTunnel{runner: r, argv: argv}
}

// Close ends the command, and returns what is closed when it has ended; nil if it did not run.
func (w *nodeTunnel) Close() (ended <-chan struct{}) {
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
func (w *nodeTunnel) IsOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session != nil && w.session.alive()
}

// Dial opens a connection to an address as seen from the node.
func (w *nodeTunnel) Dial(ctx context.Context, address string) (net.Conn, error) {
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
func (w *nodeTunnel) connect(ctx context.Context) (m *mux, s *nodeStream, fresh bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session != nil && w.session.alive() {
		return w.session, w.stream, false, nil
	}
	if s, err = openNodeStream(ctx, w.runner, w.argv); err != nil {
		return nil, nil, false, err
	}
	w.session, w.stream = newMux(s), s
	return w.session, s, true, nil
}
