package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/creack/pty"
)

// screen collects a command's output and lets a test wait for it.
type screen struct {
	t      *testing.T
	cmd    *exec.Cmd
	tty    *os.File // nil: no terminal
	mu     sync.Mutex
	text   bytes.Buffer
	change chan struct{}
	read   chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	select {
	case s.change <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// start runs a command in the background, on a terminal of its own or without one.
func (u *user) start(terminal bool, args ...string) *screen {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	u.t.Cleanup(cancel)
	return startScreen(u.t, u.command(ctx, args...), terminal)
}

// columns is how wide terminals are.
const columns = 80

// startScreen starts a command on a terminal of its own or without one.
func startScreen(t *testing.T, cmd *exec.Cmd, terminal bool) *screen {
	t.Helper()
	s := &screen{t: t, cmd: cmd, change: make(chan struct{}, 1), read: make(chan struct{})}
	if !terminal {
		s.cmd.Stdout, s.cmd.Stderr = s, s
		if err := s.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(s.read)
		return s
	}
	tty, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	s.tty = tty
	t.Cleanup(func() { tty.Close() })
	go func() {
		defer close(s.read)
		io.Copy(s, tty) // ends with EIO when the command has ended
	}()
	return s
}

// until waits until the text has appeared n times.
func (s *screen) until(text string, n int) {
	s.t.Helper()
	end := time.After(limit)
	for strings.Count(s.String(), text) < n {
		select {
		case <-s.change:
		case <-end:
			s.t.Fatalf("%q did not come; the screen: %q", text, s.String())
		}
	}
}

// key types on the terminal.
func (s *screen) key(text string) {
	s.t.Helper()
	if _, err := s.tty.WriteString(text); err != nil {
		s.t.Fatal(err)
	}
}

// code waits for the end.
func (s *screen) code() int {
	s.t.Helper()
	<-s.read
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}
