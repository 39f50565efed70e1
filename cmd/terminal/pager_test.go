package terminal

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/creack/pty"
)

// paged is what a terminal of 80 columns and 24 rows shows of a text.
func paged(t *testing.T, variables map[string]string, text string) string {
	t.Helper()
	reader, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	var screen bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&screen, reader) // ends with EIO when the other side is closed
	}()
	var out io.Writer = tty
	p := NewPager(tty, true, func(name string) string { return variables[name] })
	if p != nil {
		out = p
	}
	if _, err := io.WriteString(out, text); err != nil {
		t.Fatal(err)
	}
	if p != nil {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	tty.Close()
	<-done
	return strings.ReplaceAll(screen.String(), "\r\n", "\n")
}

// lines is text of n lines.
func lines(n int) (text string) {
	for i := range n {
		text += fmt.Sprintln("line", i)
	}
	return text
}

// TestPager: text that has room on the screen is written as it is, longer text by the pager, which may be left before its end.
func TestPager(t *testing.T) {
	own := map[string]string{"PAGER": "sed 's/^/| /'"}
	long := strings.Repeat("x", 2000) + "\n"
	for what, c := range map[string]struct {
		variables  map[string]string
		text, want string
	}{
		"short":          {own, lines(3), lines(3)},
		"long":           {own, lines(30), "| " + strings.ReplaceAll(strings.TrimSuffix(lines(30), "\n"), "\n", "\n| ") + "\n"},
		"left":           {map[string]string{"PAGER": "head -n 1"}, lines(100000), "line 0\n"},
		"a wrapped line": {own, long, "| " + long},
		"in CI":          {map[string]string{"PAGER": "sed 's/^/| /'", "CI": "1"}, lines(30), lines(30)},
		"cat":            {map[string]string{"PAGER": "cat"}, lines(30), lines(30)},
		"dumb terminal":  {map[string]string{"PAGER": "sed", "TERM": "dumb"}, lines(30), lines(30)},
		"less, at once":  {nil, lines(3), lines(3)},
	} {
		if got := paged(t, c.variables, c.text); got != c.want {
			t.Errorf("%s: shown %q, want %q", what, got, c.want)
		}
	}
}
