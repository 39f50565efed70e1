package terminal

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
)

// TestTransfer: the progress of a transfer is shown once it takes long; on a terminal not for each piece.
func TestTransfer(t *testing.T) {
	for name, test := range map[string]struct {
		tty   bool
		total int64
		every time.Duration
		want  string
		times int // number of reports
	}{
		"short":                   {false, 100e6, time.Millisecond, "", 0},
		"plain":                   {false, 100e6, 200 * time.Millisecond, "sending: 6.0 MB of 100 MB\nsending: 56 MB of 100 MB\n", 2},
		"plain, no total":         {false, 0, 200 * time.Millisecond, "sending: 6.0 MB\nsending: 56 MB\n", 2},
		"terminal":                {true, 100e6, 200 * time.Millisecond, "sending: 6.0 MB of 100 MB (1.0 s)", 95},
		"terminal, in many parts": {true, 100e6, 20 * time.Millisecond, "sending: 51 MB of 100 MB (1.0 s)", 10},
	} {
		t.Run(name, func(t *testing.T) {
			u, stderr, now := newClockedUI(t, test.tty)
			for done := int64(1e6); done <= 100e6; done += 1e6 {
				u.Transfer(launcher.Progress{Text: "sending", Done: done, Total: test.total})
				*now = now.Add(test.every)
			}
			u.Clear()
			if said := stderr.String(); !strings.Contains(said, test.want) || strings.Count(said, "sending") != test.times {
				t.Errorf("told %d times: %q", strings.Count(said, "sending"), said)
			}
		})
	}
}

// TestDetails: of the many packages of an installation only some are shown off a terminal, and on one they share a line and its time.
func TestDetails(t *testing.T) {
	for name, test := range map[string]struct {
		tty   bool
		times int
		want  string
	}{
		"plain":    {false, 4, "making\npackage 20\npackage 40\nmade\n"},
		"terminal": {true, 52, "package 50 (25 s)"},
	} {
		t.Run(name, func(t *testing.T) {
			u, stderr, now := newClockedUI(t, test.tty)
			u.Transfer(launcher.Progress{Text: "making"})
			for i := range 50 {
				*now = now.Add(500 * time.Millisecond)
				u.Transfer(launcher.Progress{Text: "package " + strconv.Itoa(i+1), Detail: true})
			}
			u.Transfer(launcher.Progress{Text: "made"})
			said := stderr.String()
			if lines := strings.Count(said, "package") + strings.Count(said, "ma"); !strings.Contains(said, test.want) || lines != test.times || test.tty && strings.Contains(said, "\n") {
				t.Errorf("%d times: %q", lines, said)
			}
		})
	}
}

// TestQuestion: a question stays in the last line, in which the user types, and whole lines of output and notes go on above it.
func TestQuestion(t *testing.T) {
	var stderr bytes.Buffer
	now := time.Unix(0, 0)
	u := NewUI(&Streams{Out: &stderr, Err: &stderr, OutTTY: true, ErrTTY: true, Now: func() time.Time { return now }}, func(string) string { return "dumb" })
	defer u.Close()
	written := func(what string, do func(), want string) {
		t.Helper()
		begin := stderr.Len()
		do()
		if got := stderr.String()[begin:]; got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	out := u.Output()
	output := func(text string) func() {
		return func() {
			if n, err := out.Write([]byte(text)); n != len(text) || err != nil {
				t.Error(n, err)
			}
		}
	}
	u.Live("Starting", now, "a  1 of 2")
	written("the question", func() { u.Ask("Stop?") }, "\r\x1b[K\x1b[A\x1b[KStop? ")
	written("the live line", func() { u.Live("Ready", now) }, "\r\x1b[KStop? ")
	written("a second", u.redraw, "")
	written("output", output("50 %\n60"), "\r\x1b[K50 %\nStop? ")
	written("a part of a line", output(" %"), "\r\x1b[KStop? ")
	written("a note", func() { u.Note("lost") }, "\r\x1b[Klost\nStop? ")
	written("of another stream", func() { _, _ = u.ErrOutput().Write([]byte("x\n")) }, "\r\x1b[K60 %x\nStop? ")
	output("70 %")()
	written("the answer", u.Answered, "\r\x1b[K70 %")
	written("the next output", output("\n"), "\n")
	written("and again the live line", u.redraw, "Ready")
	u.Ask("Stop?")
	output("80 %")()
	written("the end without an answer", u.Close, "\r\x1b[K80 %")
}

// TestRows: below the live line is a row for each part, cut to the terminal's width, and all of them are erased for a note.
func TestRows(t *testing.T) {
	u, stderr, now := newClockedUI(t, true)
	u.Live("Starting", *now, "a  1 of 2", strings.Repeat("b", 100))
	drawn := "\x1b[2mStarting\x1b[0m\n\x1b[2ma  1 of 2\x1b[0m\n\x1b[2m" + strings.Repeat("b", 76) + "…\x1b[0m"
	if got := stderr.String(); got != drawn {
		t.Errorf("%q, want %q", got, drawn)
	}
	stderr.Reset()
	u.Live("Starting", *now, strings.Repeat("节点", 20), "e\u0301"+strings.Repeat("🚀", 50)) // columns, not characters, count
	if got, want := stderr.String(), "\n\x1b[2m"+strings.Repeat("节点", 19)+"…\x1b[0m\n\x1b[2me\u0301"+strings.Repeat("🚀", 37)+"…\x1b[0m"; !strings.HasSuffix(got, want) {
		t.Errorf("wide: %q, want %q", got, want)
	}
	u.Live("Starting", *now, "a  1 of 2", strings.Repeat("b", 100))
	stderr.Reset()
	u.Note("a note")
	if got, want := stderr.String(), "\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[Ka note\n"+drawn; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	stderr.Reset()
	u.Clear()
	if got, want := stderr.String(), "\r\x1b[K\x1b[A\x1b[K\x1b[A\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOwnLine: a note behind output without a line end begins on a line of its own, if both go to the same place.
func TestOwnLine(t *testing.T) {
	for name, same := range map[string]bool{"one file": true, "two files": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open := func(name string) *os.File {
				f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { f.Close() })
				return f
			}
			out, errs, want := open("out"), open("err"), "50 %"
			if same {
				errs, want = open("out"), "50 %\nended\n"
			}
			u := NewUI(&Streams{Out: driverio.NewStdout(out, nil), Err: errs, Now: time.Now}, func(string) string { return "" })
			if _, err := u.Output().Write([]byte("50 %")); err != nil {
				t.Fatal(err)
			}
			u.Note("ended")
			if got, err := os.ReadFile(out.Name()); err != nil || string(got) != want {
				t.Errorf("%q, %v; want %q", got, err, want)
			}
		})
	}
}

// newClockedUI is a UI with what it writes and a clock that the test moves.
func newClockedUI(t *testing.T, tty bool) (u *UI, stderr *bytes.Buffer, now *time.Time) {
	stderr, now = new(bytes.Buffer), new(time.Time)
	*now = time.Unix(0, 0)
	s := &Streams{Err: stderr, ErrTTY: tty, Now: func() time.Time { return *now }}
	u = NewUI(s, func(string) string { return "" })
	t.Cleanup(u.Close)
	return u, stderr, now
}
