// Package terminaltest checks commands on terminals in a cluster.
package terminaltest

import (
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"

	"github.com/rayctl/rayctl/launcher"
)

// OnTerminal checks a command on a terminal in a cluster: the command gets all keys, also Ctrl-C, and the window's size. Tests of launchers that can run
// commands call it with a cluster of theirs.
func OnTerminal(t *testing.T, l launcher.Launcher, id launcher.ID) {
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	if err := pty.Setsize(keyboard, &pty.Winsize{Cols: 132, Rows: 50}); err != nil {
		t.Fatal(err)
	}
	script := `trap "echo caught" INT; until [ "$(stty size)" = "50 132" ]; do sleep 0.1; done; echo "ready: $(stty size) $(tty)"; until read line; do :; done; echo "got $line"; exit 7`
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer terminal.Close()
		code, err := l.Exec(t.Context(), id, launcher.ExecRequest{Command: []string{"sh", "-c", script}, Stdin: terminal, Stdout: terminal, Stderr: terminal, TTY: true})
		if code != 7 || err != nil {
			t.Errorf("code %d, %v", code, err)
		}
	}()
	for _, step := range []struct{ wait, key string }{{"ready: 50 132 /dev/pts/", "\x03"}, {"caught", "more\r"}, {"got more", ""}} {
		ReadUntil(t, keyboard, step.wait)
		if _, err := io.WriteString(keyboard, step.key); err != nil {
			t.Fatal(err)
		}
	}
	<-ended
}

// ReadUntil reads until the text is there.
func ReadUntil(t *testing.T, r io.Reader, text string) {
	t.Helper()
	all, buffer := "", make([]byte, 4096)
	for !strings.Contains(all, text) {
		n, err := r.Read(buffer)
		if all += string(buffer[:n]); err != nil {
			t.Fatalf("%q did not come: %q, %v", text, all, err)
		}
	}
}
