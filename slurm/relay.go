package slurm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/templates"
)

// tunnels are the open byte streams into jobs, one for each node that is talked to, and the cheaper ways that were found to heads.
type tunnels struct {
	mu     sync.Mutex
	open   map[string]*tunnel // by cluster, job, attempt and node
	chosen map[string]dialer  // by cluster, attempt and address; nil: none but a stream
}

// tunnel is a byte stream to one node that carries many connections (templates/slurm_relay.py). It is opened by the first connection, and again after
// a cut.
type tunnel struct {
	tunnels *tunnels
	key     string
	argv    []string
	l       *Launcher

	mu      sync.Mutex
	users   int
	idle    *time.Timer
	session *mux
	stream  *stream
}

// idleTime keeps a way that nobody uses: the next request often follows.
const idleTime = 20 * time.Second

// take returns the way to a node, for one user more.
func (w *tunnels) take(c *cluster, node string) *tunnel {
	key := strings.Join([]string{c.name, strconv.Itoa(c.current.Job), c.current.Attempt, node}, "/")
	w.mu.Lock()
	defer w.mu.Unlock()
	found := w.open[key]
	if found == nil {
		found = &tunnel{tunnels: w, key: key, l: c.l, argv: append(c.overlap(node), "--unbuffered",
			c.plan(0).hostPython(), "-E", "-s", "-S", "-u", path.Join(c.record.Programs, templates.SlurmRelay))}
		w.open[key] = found
	}
	found.mu.Lock()
	defer found.mu.Unlock()
	found.users++
	if found.idle != nil {
		found.idle.Stop()
		found.idle = nil
	}
	return found
}

// overlap begins a step of the job on one node that takes nothing from Ray's.
func (c *cluster) overlap(node string) []string {
	argv := []string{"srun", "--quiet", "--overlap", "--jobid=" + strconv.Itoa(c.current.Job), "--nodelist=" + node, "--nodes=1", "--ntasks=1",
		"--mpi=none", "--cpu-bind=none", "--export=ALL", "--chdir=/", "--job-name=rayctl"}
	if len(c.plan(0).components()) > 1 {
		argv = append(argv, "--het-group="+c.componentOf(node))
	}
	return cleanStep(argv...)
}

// componentOf is the part of a heterogeneous job that a node belongs to.
func (c *cluster) componentOf(node string) string {
	if c.state == nil {
		return "0"
	}
	for _, n := range c.state.Nodes {
		if n.Host != node {
			continue
		}
		at := 0
		for i, part := range c.plan(0).components() {
			for range part.nodes {
				if at < len(c.state.Nodes) && c.state.Nodes[at].Name == n.Name {
					return strconv.Itoa(i)
				}
				at++
			}
		}
	}
	return "0"
}

// drop closes all tunnels into a cluster that has ended.
func (w *tunnels) drop(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, found := range w.open {
		if strings.HasPrefix(key, name+"/") {
			delete(w.open, key)
			go found.close()
		}
	}
	for key := range w.chosen {
		if strings.HasPrefix(key, name+"/") {
			delete(w.chosen, key)
		}
	}
}

// closeAll closes all tunnels and waits until their commands have ended.
func (w *tunnels) closeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, found := range w.open {
		delete(w.open, key)
		found.mu.Lock()
		s := found.stream
		found.shut()
		found.mu.Unlock()
		if s != nil {
			<-s.ended
		}
	}
}

// release is one user less.
func (w *tunnel) release() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users == 0 {
		w.idle = time.AfterFunc(idleTime, w.expire)
	}
	return nil
}

// expire closes a way that nobody used for a while.
func (w *tunnel) expire() {
	w.tunnels.mu.Lock()
	defer w.tunnels.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users == 0 {
		if w.tunnels.open[w.key] == w {
			delete(w.tunnels.open, w.key)
		}
		w.shut()
	}
}

func (w *tunnel) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.shut()
}

func (w *tunnel) shut() {
	if w.session != nil {
		w.session.cut(net.ErrClosed) // it closes the stream
		w.session, w.stream = nil, nil
	}
}

// isOpen says whether the stream is there already.
func (w *tunnel) isOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.session != nil && w.session.alive()
}

// dial opens a connection to an address as seen from the node.
func (w *tunnel) dial(ctx context.Context, address string) (net.Conn, error) {
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
			<-s.ended // it has said all
			if s.said.lastLine() != "" {
				return nil, fmt.Errorf("the way through srun is cut: %s", complaint(s.said))
			}
		}
		return nil, err
	}
}

// connect returns the session, a fresh one where there is none or it was cut.
func (w *tunnel) connect(ctx context.Context) (m *mux, s *stream, fresh bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.session != nil && w.session.alive() {
		return w.session, w.stream, false, nil
	}
	if s, err = openStream(ctx, w.l.site.runner, w.argv); err != nil {
		return nil, nil, false, err
	}
	w.session, w.stream = newMux(s), s
	return w.session, s, true, nil
}

// stream is a command's standard input and output.
type stream struct {
	readDeadliner
	io.WriteCloser
	direct syscall.RawConn // of the input
	cmd    *exec.Cmd
	cancel context.CancelFunc
	said   *tail
	once   sync.Once
	ended  chan struct{}
}

// readDeadliner is what a command's standard output is: an *os.File for a pipe.
type readDeadliner interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// writeSome implements pipes: 0 where the pipe is full.
func (s *stream) writeSome(p []byte) (n int, err error) {
	callErr := s.direct.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), p)
		return true
	})
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return max(n, 0), errors.Join(err, callErr)
}

// closeTime is what a command gets to end after its input was closed.
const closeTime = 5 * time.Second

func openStream(ctx context.Context, r Runner, argv []string) (*stream, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the stream outlives its first user
	cmd := r.Command(ctx, argv...)
	s := &stream{cmd: cmd, cancel: cancel, said: &tail{}, ended: make(chan struct{})}
	cmd.Stderr = s.said
	in, err := cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		s.WriteCloser, s.readDeadliner = in, out.(readDeadliner) // os/exec makes them by os.Pipe
		s.direct, err = in.(syscall.Conn).SyscallConn()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("start %s: %w", argv[0], err)
	}
	return s, nil
}

// Close closes the command's input; a command that does not end is killed.
func (s *stream) Close() error {
	s.once.Do(func() {
		_ = s.WriteCloser.Close() // the command ends by it
		kill := time.AfterFunc(closeTime, s.cancel)
		go func() {
			_ = s.cmd.Wait() // how it ended does not matter any more
			kill.Stop()
			s.cancel()
			close(s.ended)
		}()
	})
	return nil
}
