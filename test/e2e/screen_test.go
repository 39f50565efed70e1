package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strconv"
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
	exit   int           // with a terminal: the code that the leader reports, -1 as long as it has not
	read   chan struct{} // closed when all of its output is here
}

// leader is what a terminal's shell is to the command: the leader of the session. When that ends, the kernel drops what the terminal has not read yet
// (Linux, drivers/tty/pty.c, pty_flush_buffer: seen once in 150 times on a busy machine), so it stays until its input ends, and reports the exit code.
const leader = `trap : INT QUIT HUP TERM; "$@" 3<&-; printf '\001%d\001' $?; read -r _ <&3`

// reported is the leader's report, after all output.
var reported = regexp.MustCompile(`\x01(\d+)\x01$`)

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
	s := &screen{t: t, cmd: cmd, exit: -1, change: make(chan struct{}, 1), read: make(chan struct{})}
	if !terminal {
		s.cmd.Stdout, s.cmd.Stderr = s, s
		if err := s.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		close(s.read)
		return s
	}
	stays, leave, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Args = append([]string{"sh", "-c", leader, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.ExtraFiles = "/bin/sh", []*os.File{stays}
	tty, err := pty.StartWithSize(s.cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	stays.Close()
	s.tty = tty
	t.Cleanup(func() { leave.Close(); tty.Close(); cmd.Wait() })
	go func() {
		defer close(s.read)
		for buffer := make([]byte, 4096); ; {
			n, err := tty.Read(buffer)
			_, _ = s.Write(buffer[:n])
			if err != nil || s.takeReport() {
				return
			}
		}
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

// takeReport takes the leader's report off the end of the text.
func (s *screen) takeReport() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := reported.FindSubmatch(s.text.Bytes())
	if found == nil {
		return false
	}
	s.text.Truncate(s.text.Len() - len(found[0]))
	s.exit, _ = strconv.Atoi(string(found[1]))
	return true
}

// code waits for the end.
func (s *screen) code() int {
	s.t.Helper()
	<-s.read
	if s.tty != nil {
		return s.exit
	}
	s.cmd.Wait()
	return s.cmd.ProcessState.ExitCode()
}
