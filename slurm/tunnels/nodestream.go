package tunnels

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/rayctl/rayctl/launcher/tail"
	"github.com/rayctl/rayctl/slurm/remote"
)

// nodeStream is a command's standard input and output.
type nodeStream struct {
	readDeadliner
	io.WriteCloser
	direct syscall.RawConn // of the input
	cmd    *exec.Cmd
	cancel context.CancelFunc
	said   *tail.Tail
	once   sync.Once
	ended  chan struct{}
}

// readDeadliner is what a command's standard output is: an *os.File for a pipe.
type readDeadliner interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// afterMark leaves out what a login shell prints before the command.
type afterMark struct {
	remote.SkipMark
	pipe readDeadliner
}

func (a *afterMark) SetReadDeadline(t time.Time) error { return a.pipe.SetReadDeadline(t) }

// writeSome implements pipes: 0 where the pipe is full.
func (s *nodeStream) writeSome(p []byte) (n int, err error) {
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

func openNodeStream(ctx context.Context, r remote.Runner, argv []string) (*nodeStream, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // the stream outlives its first user
	cmd := r.Command(ctx, remote.Marked(argv...)...)
	s := &nodeStream{cmd: cmd, cancel: cancel, said: &tail.Tail{}, ended: make(chan struct{})}
	cmd.Stderr = s.said
	in, err := cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		pipe := out.(readDeadliner) // os/exec makes them by os.Pipe
		s.WriteCloser, s.readDeadliner = in, &afterMark{remote.SkipMark{From: pipe}, pipe}
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
func (s *nodeStream) Close() error {
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
