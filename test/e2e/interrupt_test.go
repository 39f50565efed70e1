package e2e

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/rayctl/rayctl/launcher"
)

// screen collects what a command shows and lets a test wait for it.
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
	s := &screen{t: u.t, cmd: u.command(ctx, args...), change: make(chan struct{}, 1), read: make(chan struct{})}
	if !terminal {
		s.cmd.Stdout, s.cmd.Stderr = s, s
		if err := s.cmd.Start(); err != nil {
			u.t.Fatal(err)
		}
		close(s.read)
		return s
	}
	tty, err := pty.Start(s.cmd)
	if err != nil {
		u.t.Fatal(err)
	}
	s.tty = tty
	u.t.Cleanup(func() { tty.Close() })
	go func() {
		defer close(s.read)
		io.Copy(s, tty) // ends with EIO when the command has ended
	}()
	return s
}

// until waits until the text is on the screen, the n-th time.
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

const ctrlC = "\x03"

// patient says what it is told by SIGTERM, as a driver that saves a checkpoint does.
const patient = `import signal, sys, time
def stop(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    time.sleep(0.1)
`

// TestCtrlCOnTerminal answers the question in each way, on one run.
func TestCtrlCOnTerminal(t *testing.T) {
	u := newUser(t)
	u.write("wd/main.py", patient)
	s := u.start(true, "run", "--name", "asked", "--working-dir", "wd", "--", "python", "main.py")
	s.until("ready", 1)
	s.key(ctrlC)
	s.until("[s/d/c]", 1)
	s.key("c\n")
	s.until("going on", 1)
	s.key(ctrlC)
	s.until("[s/d/c]", 2)
	s.key("d\n")
	if code := s.code(); code != 0 || !strings.Contains(s.String(), "goes on") {
		t.Fatalf("detach: exit code %d, %q", code, s)
	}

	watching := u.start(true, "logs", "-f", "asked") // Ctrl-C stops the watching alone
	watching.until("ready", 1)
	watching.key(ctrlC)
	if code := watching.code(); code != launcher.CodeInterrupted || !strings.Contains(watching.String(), "goes on") {
		t.Fatalf("logs -f: exit code %d, %q", code, watching)
	}

	again := u.start(true, "run", "--name", "asked", "--working-dir", "wd", "--", "python", "main.py") // the same run
	again.until("ready", 1)
	again.key(ctrlC)
	again.until("[s/d/c]", 1)
	again.key("s\n")
	if code := again.code(); code != launcher.CodeInterrupted {
		t.Errorf("stop: exit code %d, %q", code, again)
	}
	contains(t, "the screen", again.String(), "saved", "rayctl's exit code 130")
	if out := u.want(0, "ls", "-o", "name").out; strings.Contains(out, "asked") {
		t.Errorf("the run is still there: %s", out)
	}
}

// TestCtrlCTwice stops at once.
func TestCtrlCTwice(t *testing.T) {
	u := newUser(t)
	s := u.start(true, "run", "--name", "twice", "--grace", "10m", "--", "python", "-c", strings.Replace(patient, "sys.exit(0)", "pass", 1))
	s.until("ready", 1)
	s.key(ctrlC)
	s.until("[s/d/c]", 1)
	s.key(ctrlC)
	if code := s.code(); code != launcher.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
}

// TestSignalsWithoutTerminal hands the end to the keeper, and SIGHUP detaches.
func TestSignalsWithoutTerminal(t *testing.T) {
	u := newUser(t)
	u.write("wd/main.py", patient)
	s := u.start(false, "run", "--name", "batch", "--working-dir", "wd", "--", "python", "main.py")
	s.until("ready", 1)
	s.cmd.Process.Signal(syscall.SIGHUP)
	if code := s.code(); code != 0 {
		t.Fatalf("SIGHUP: exit code %d, %q", code, s)
	}
	s = u.start(false, "run", "--name", "batch", "--working-dir", "wd", "--", "python", "main.py")
	s.until("ready", 1)
	s.cmd.Process.Signal(syscall.SIGTERM)
	if code := s.code(); code != launcher.CodeInterrupted {
		t.Errorf("SIGTERM: exit code %d, %q", code, s)
	}
	contains(t, "the output", s.String(), "saved")
}

// TestUpCancelled leaves nothing.
func TestUpCancelled(t *testing.T) {
	u := newUser(t)
	s := u.start(true, "up", "cancelled")
	s.until("Starting", 1)
	s.key(ctrlC)
	if code := s.code(); code != launcher.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
	if out := u.want(0, "ls", "-o", "name").out; strings.Contains(out, "cancelled") {
		t.Errorf("still there: %s", out)
	}
}
