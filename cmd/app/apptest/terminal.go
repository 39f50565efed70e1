package apptest

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/creack/pty"

	"github.com/rayctl/rayctl/cmd/app"
	"github.com/rayctl/rayctl/cmd/terminal"
)

// OnTerminal returns what rayctl writes to a terminal of so many columns, an hour after Begin.
func OnTerminal(t *testing.T, columns int, run func(a *app.App)) string {
	t.Helper()
	reader, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: uint16(columns)}); err != nil { //nolint:gosec // it is small
		t.Fatal(err)
	}
	var text bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&text, reader) // ends with EIO when the other side is closed
	}()
	a, _, _ := New()
	a.Out, a.Err, a.OutTTY, a.ErrTTY = tty, tty, true, true
	a.Getenv = func(name string) string { return map[string]string{"TERM": "dumb"}[name] } // without colours
	a.Now = func() time.Time { return Begin.Add(time.Hour) }
	a.UI = terminal.NewUI(&a.Streams, a.Getenv)
	run(a)
	a.UI.Close()
	tty.Close()
	<-done
	return text.String()
}

// ends of UI's live line, and colours, which take no room.
var ends, colours = regexp.MustCompile("\r|\x1b\\[K|\x1b\\[A"), regexp.MustCompile("\x1b\\[[0-9;]*m")

// Fits expects that no line is longer than the terminal is wide, which would break it inside a word, and that these parts are there, each on one line.
func Fits(t *testing.T, text string, columns int, parts ...string) {
	t.Helper()
	text = colours.ReplaceAllString(text, "")
	for line := range strings.Lines(ends.ReplaceAllString(strings.ReplaceAll(text, "\r\n", "\n"), "\n")) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}
