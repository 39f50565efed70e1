package kuberay

import (
	"os"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"golang.org/x/term"
	"k8s.io/client-go/tools/remotecommand"
)

// TestWindow: while a command elsewhere has the terminal, its keys are passed on as they are typed, and its size whenever it changes; then it is
// what it was.
func TestWindow(t *testing.T) {
	keyboard, terminal, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer keyboard.Close()
	defer terminal.Close()
	resize := func(columns, rows uint16) {
		if err := pty.Setsize(keyboard, &pty.Winsize{Cols: columns, Rows: rows}); err != nil {
			t.Fatal(err)
		}
	}
	resize(80, 25)
	before := modes(t, terminal)
	w, err := newTerminalWindow(terminal)
	if err != nil {
		t.Fatal(err)
	}
	if modes(t, terminal) == before {
		t.Error("not raw")
	}
	if got := w.Next(); got == nil || *got != (remotecommand.TerminalSize{Width: 80, Height: 25}) {
		t.Errorf("size %+v", got)
	}
	resize(132, 50)
	if err := syscall.Kill(os.Getpid(), syscall.SIGWINCH); err != nil { // the terminal is not this process's
		t.Fatal(err)
	}
	if got := w.Next(); got == nil || *got != (remotecommand.TerminalSize{Width: 132, Height: 50}) {
		t.Errorf("changed size %+v", got)
	}
	w.takeBack()
	if got := w.Next(); got != nil {
		t.Errorf("size %+v after the end", got)
	}
	if modes(t, terminal) != before {
		t.Error("still raw")
	}
}

// modes are the terminal's settings: how it handles keys.
func modes(t *testing.T, terminal *os.File) any {
	t.Helper()
	state, err := term.GetState(int(terminal.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return *state
}
