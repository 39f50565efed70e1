package e2e

import (
	"bufio"
	"bytes"
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/app/apptest"
	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/launcher/runstate"
	"github.com/rayctl/rayctl/test/needs"
)

const ctrlC = "\x03"

// patient prints a line on SIGTERM and exits, like a driver that saves a checkpoint.
const patient = `import signal, sys, time
def stop(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
print("ready", flush=True)
while True:
    time.sleep(0.1)
`

// TestCtrlCOnTerminal answers the question in each way, on one run. While it is asked the driver's output goes on above it.
func TestCtrlCOnTerminal(t *testing.T) {
	u := newUser(t)
	say := strconv.Quote(filepath.Join(u.dir, "say"))
	u.write("wd/main.py", "import os\n"+patient+"    if os.path.exists("+say+"):\n        os.remove("+say+")\n        print('goes on', flush=True)\n")
	s := u.start(true, "run", "--name", "asked", "--working-dir", "wd", "--", "python", "main.py")
	s.until("ready", 1)
	s.key(ctrlC)
	s.until("[s/d/c]", 1)
	u.write("say", "")
	s.until("goes on\r\n", 1)
	s.until("[s/d/c]", 2) // below it
	s.key("c\n")
	s.until("The run continues", 1)
	s.key(ctrlC)
	s.until("\r\n^C\x1b[1mStop", 2) // the first one may have been written more than once
	s.key("d\n")
	if code := s.code(); code != 0 || !strings.Contains(s.String(), "keeps running") {
		t.Fatalf("detach: exit code %d, %q", code, s)
	}

	watching := u.start(true, "logs", "-f", "asked") // Ctrl-C stops only the watching
	watching.until("ready", 1)
	watching.key(ctrlC)
	if code := watching.code(); code != runstate.CodeInterrupted || !strings.Contains(watching.String(), "keeps running") {
		t.Fatalf("logs -f: exit code %d, %q", code, watching)
	}

	again := u.start(true, "run", "--name", "asked", "--working-dir", "wd", "--", "python", "main.py") // the same run
	again.until("ready", 1)
	again.key(ctrlC)
	again.until("[s/d/c]", 1)
	again.key("s\n")
	if code := again.code(); code != runstate.CodeInterrupted {
		t.Errorf("stop: exit code %d, %q", code, again)
	}
	contains(t, "the screen", again.String(), "saved", "exit code 130")
	for _, screen := range []*screen{s, watching, again} {
		apptest.Fits(t, screen.String(), columns)
	}
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
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
}

// TestSignalsWithoutTerminal: SIGINT and SIGTERM end the run by the keeper, and SIGHUP detaches.
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
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("SIGTERM: exit code %d, %q", code, s)
	}
	contains(t, "the output", s.String(), "saved")
}

// TestTimeout: `timeout` signals rayctl and then the group of both. That is one request: the driver gets its grace.
func TestTimeout(t *testing.T) {
	u := newUser(t)
	u.write("wd/main.py", strings.Replace(patient, "    print", "    time.sleep(2)\n    print", 1))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := u.command(ctx, "run", "--name", "limited", "--grace", "1m", "--working-dir", "wd", "--", "python", "main.py")
	c.Path, c.Args = needs.Program(t, "timeout", "coreutils"), append([]string{"timeout", "10m", c.Path}, c.Args[1:]...)
	s := startScreen(t, c, false)
	s.until("ready", 1)
	// SIGALRM is what timeout's timer sends it when the 10 minutes are over. Again, because the kernel merges signals that come at the same time.
	for begin := time.Now(); time.Since(begin) < 300*time.Millisecond; time.Sleep(5 * time.Millisecond) {
		s.cmd.Process.Signal(syscall.SIGALRM)
	}
	if code := s.code(); code != 124 { // timeout's own
		t.Errorf("exit code %d, %q", code, s)
	}
	contains(t, "the output", s.String(), "saved")
	if st := decode[launcher.Status](t, u.want(0, "status", "limited", "-o", "json").out); st.Exit == nil || st.Exit.Cause != runstate.CauseInterrupted {
		t.Errorf("%+v", st.Exit)
	}
}

// TestReaderGone: a run whose reader of stdout has ended continues, and the command has not succeeded.
func TestReaderGone(t *testing.T) {
	u := newUser(t)
	u.write("wd/main.py", strings.Replace(patient, "while True:", "while True:\n    print('step', flush=True)", 1))
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	c := u.command(ctx, "run", "--name", "read", "--working-dir", "wd", "--", "python", "main.py")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "step"; {
	}
	out.Close()
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != runstate.CodeOutputLost {
		t.Errorf("exit code %d, %s", code, &stderr)
	}
	contains(t, "stderr", stderr.String(), "The reader of the output (stdout) has ended. Detached; read keeps running")
	u.want(0, "down", "read")
}

// TestUpCancelled expects that nothing is left.
func TestUpCancelled(t *testing.T) {
	u := newUser(t)
	s := u.start(true, "up", "cancelled")
	s.until("Ray is starting", 1)
	s.key(ctrlC)
	if code := s.code(); code != runstate.CodeInterrupted {
		t.Errorf("exit code %d, %q", code, s)
	}
	apptest.Fits(t, s.String(), columns)
	if out := u.want(0, "ls", "-o", "name").out; strings.Contains(out, "cancelled") {
		t.Errorf("still there: %s", out)
	}
	u.want(0, "up", "cancelled", "--detach", "--workers", "2") // there was no job whose record could be lost
	u.want(0, "down", "cancelled", "--now")
}

// TestExecOnTerminal: Ctrl-C goes to the command, and rayctl ends as the command does.
func TestExecOnTerminal(t *testing.T) {
	u := sharedCluster(t)
	s := u.start(true, "exec", "shared", "--", "sh", "-c", `trap "echo caught" INT; echo ready; until read line; do :; done; echo "got $line"; exit 7`)
	s.until("ready", 1)
	s.key(ctrlC)
	s.until("caught", 1)
	s.key(ctrlC)
	s.until("caught", 2)
	s.key("more\n")
	if code := s.code(); code != 7 || !strings.Contains(s.String(), "got more") {
		t.Errorf("a command that catches: exit code %d, %q", code, s)
	}

	shell := u.start(true, "exec", "-it", "shared", "--", "bash", "--norc", "--noprofile")
	shell.key("sh -c 'echo be\"\"gun; exec sleep 1000'\n")
	shell.until("begun", 1)
	shell.key(ctrlC)
	shell.key("echo go''ing on; exit 5\n")
	if code := shell.code(); code != 5 || !strings.Contains(shell.String(), "going on") {
		t.Errorf("a shell: exit code %d, %q", code, shell)
	}

	terminaltest.Shell(t, u.command(t.Context(), "exec", "shared")) // without a command

	simple := u.start(true, "exec", "-it", "shared", "--", "sh", "-c", "echo ready; exec sleep 1000")
	simple.until("ready", 1)
	simple.key(ctrlC)
	if code := simple.code(); code != runstate.CodeInterrupted {
		t.Errorf("a command that does not catch: exit code %d, %q", code, simple)
	}
}

// counts reports how often it was asked to end, and takes a moment to end.
const counts = `n=0; trap 'n=$((n+1))' INT TERM HUP; echo ready; until [ $n -gt 0 ]; do sleep 0.1; done; sleep 0.5; sleep 0.5; echo "asked $n times"; exit 3`

// TestExecInterrupted: without -t the command is asked once to end, and killed only after its grace.
func TestExecInterrupted(t *testing.T) {
	u := sharedCluster(t)
	ended := func(name string, s *screen, want string) {
		t.Helper()
		if code := s.code(); code != runstate.CodeInterrupted || !strings.Contains(s.String(), want) || strings.Contains(s.String(), "rayctl:") {
			t.Errorf("%s: exit code %d, %q", name, code, s)
		}
	}
	s := u.start(true, "exec", "-i=false", "shared", "--", "sh", "-c", counts)
	s.until("ready", 1)
	s.key(ctrlC)
	ended("Ctrl-C", s, "asked 1 times")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		s := u.start(false, "exec", "shared", "--", "sh", "-c", counts)
		s.until("ready", 1)
		s.cmd.Process.Signal(signal)
		ended(signal.String(), s, "asked 1 times")
	}
	s = u.start(false, "exec", "shared", "--", "sh", "-c", `trap "" TERM; echo ready; exec sleep 1000`)
	s.until("ready", 1)
	s.cmd.Process.Signal(syscall.SIGTERM)
	ended("deaf", s, "ready")
	contains(t, "-t without a terminal", u.want(0, "exec", "-t", "shared", "--", "true").err, "-t has no effect")
}
