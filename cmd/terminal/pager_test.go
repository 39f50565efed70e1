package terminal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// paged is what a terminal of 80 columns and 24 rows shows of a command whose output show writes, after whose first line it says a note.
func paged(t *testing.T, variables map[string]string, show func(w io.Writer) error) (screen string, p *Pager, err error) {
	t.Helper()
	reader, tty, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(&text, reader) // ends with EIO when the other side is closed
	}()
	getenv := func(name string) string { return variables[name] }
	u := NewUI(&Streams{Out: tty, Err: tty, OutTTY: true, ErrTTY: true, Now: time.Now}, getenv)
	if p = u.Page(tty, getenv); p == nil {
		err = show(u.Output())
	} else {
		if _, err = io.WriteString(p, "first\n"); err == nil {
			u.Note("a note")
			err = show(p)
		}
		p.Close()
	}
	u.Close()
	tty.Close()
	<-done
	return strings.ReplaceAll(text.String(), "\r\n", "\n"), p, err
}

// lines is text of n lines.
func lines(n int) (text string) {
	for i := range n {
		text += fmt.Sprintln("line", i)
	}
	return text
}

// TestPager: output that has room on the screen is written as it is, longer output by the pager, without what a progress bar has overwritten; notes come after it.
func TestPager(t *testing.T) {
	writes := func(parts ...string) func(io.Writer) error {
		return func(w io.Writer) error {
			for _, part := range parts {
				if _, err := io.WriteString(w, part); err != nil {
					return err
				}
			}
			return nil
		}
	}
	own := map[string]string{"PAGER": "sed 's/^/| /'"}
	for what, c := range map[string]struct {
		variables map[string]string
		show      func(io.Writer) error
		want      string
	}{
		"short":          {own, writes(lines(3)), "first\n" + lines(3) + "a note\n"},
		"progress":       {own, writes(lines(30), "10%\r50", "%\r100%\nend"), "| first\n| " + strings.ReplaceAll(strings.TrimSuffix(lines(30), "\n"), "\n", "\n| ") + "\n| 100%\n| end"},
		"in CI":          {map[string]string{"PAGER": "sed", "CI": "true"}, writes(lines(30)), lines(30)},
		"cat":            {map[string]string{"PAGER": "cat"}, writes(lines(30)), lines(30)},
		"dumb terminal":  {map[string]string{"PAGER": "sed", "TERM": "dumb"}, writes(lines(30)), lines(30)},
		"less, at once":  {nil, writes(lines(3)), "first\n" + lines(3) + "a note\n"},
		"unended":        {own, writes("x"), "first\nx\na note\n"},
		"a wrapped line": {own, writes(strings.Repeat("x", 2000)), "| first\n| " + strings.Repeat("x", 2000)},
	} {
		got, _, err := paged(t, c.variables, c.show)
		want := c.want
		if strings.HasPrefix(want, "|") { // whose last line sed may end, or the note
			got = strings.TrimSuffix(strings.TrimSuffix(got, "a note\n"), "\n")
		}
		if err != nil || got != want {
			t.Errorf("%s: %v, shown %q, want %q", what, err, got, want)
		}
	}
}

// TestPagerLeft: the source of the output ends soon after the user has left the pager.
func TestPagerLeft(t *testing.T) {
	_, p, err := paged(t, map[string]string{"PAGER": "head -n 1"}, func(w io.Writer) error {
		for {
			if _, err := io.WriteString(w, lines(100)); err != nil {
				return err
			}
		}
	})
	if !errors.Is(err, ErrPagerLeft) || !p.Left() {
		t.Errorf("%v, left %v", err, p.Left())
	}
}
