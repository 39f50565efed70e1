package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rayctl/rayctl/launcher/conformance/terminaltest"
	"github.com/rayctl/rayctl/launcher/runstate"
)

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

// counts reports how often it was asked to end, and takes a moment to end.
const counts = `n=0; trap 'n=$((n+1))' INT TERM HUP; echo ready; until [ $n -gt 0 ]; do sleep 0.1; done; sleep 0.5; sleep 0.5; echo "asked $n times"; exit 3`

// TestExecAndCp run a command and copy files there and back.
func TestExecAndCp(t *testing.T) {
	u := sharedCluster(t)
	u.write("main.py", printArguments)
	u.env = []string{"CODE=4"}
	r := u.want(4, append([]string{"exec", "shared", "--node", "worker-1", "--", "python", "main.py"}, hostile...)...)
	if d := cmp.Diff(strings.Join(hostile, "\x00"), r.out); d != "" {
		t.Error(d)
	}
	contains(t, "ray status", u.want(0, "exec", "shared", "--", "ray", "status").out, "/4.0 CPU", "Pending Demands")
	u.want(64, "exec", "shared", "--node", "nosuch", "--", "true")
	contains(t, "exec", u.want(127, "exec", "shared", "--", "no-such-program").err, "no-such-program")
	u.write("tree/in ner/$(a)", "content\n")
	there := filepath.Join(t.TempDir(), "there")
	u.want(0, "cp", "tree", "shared:"+there)
	u.want(0, "cp", "shared:"+there, "back")
	got, err := os.ReadFile(filepath.Join(u.dir, "back", "in ner", "$(a)"))
	if err != nil || string(got) != "content\n" {
		t.Errorf("%q, %v", got, err)
	}
	file := filepath.Join(there, "in ner", "$(a)")
	contains(t, "from itself", u.want(65, "cp", "shared:"+file, file).err, "the same", "nothing was copied")
	contains(t, "to itself", u.want(65, "cp", file, "shared:"+there+"/in ner").err, "the same")
	contains(t, "into itself", u.want(65, "cp", "shared:"+there, there+"/in ner/x").err, "into itself")
	if got, err := os.ReadFile(file); err != nil || string(got) != "content\n" {
		t.Errorf("after copies onto itself: %q, %v", got, err)
	}
	contains(t, "what is not here", u.want(65, "cp", "nosuch", "shared:/tmp/x").err, "rayctl: there is no file nosuch here")
	u.want(0, "cp", "shared:"+there, "made/")
	contains(t, "no place here", u.want(65, "cp", "shared:"+there, "nosuch/dir/").err, "rayctl: there is no directory nosuch/dir/ here")
	contains(t, "no place there", u.want(65, "cp", file, "shared:"+there+"/no/dir/x").err, "there is no directory "+there+"/no/dir/ on the node")
	u.want(65, "cp", "shared:/nosuch", ".")
	copyOverLink(t, u, there)
}

// copyOverLink copies a file that was a link on the node at first: what that link named here keeps its content.
func copyOverLink(t *testing.T, u *user, there string) {
	u.write("secret", "mine")
	report := filepath.Join(there, "report.txt")
	if err := os.Symlink(filepath.Join(u.dir, "secret"), report); err != nil {
		t.Fatal(err)
	}
	u.want(0, "cp", "shared:"+report, "report.txt")
	if err := errors.Join(os.Remove(report), os.WriteFile(report, []byte("theirs"), 0o600), os.Symlink("secret", filepath.Join(u.dir, "typed"))); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"report.txt", "typed"} {
		u.want(0, "cp", "shared:"+report, target)
		info, err := os.Lstat(filepath.Join(u.dir, target))
		if err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s is %v, %v", target, info, err)
		}
	}
	if got, err := os.ReadFile(filepath.Join(u.dir, "secret")); err != nil || string(got) != "mine" {
		t.Errorf("written through a link: %q, %v", got, err)
	}
}
