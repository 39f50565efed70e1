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

// TestHeldWhileTyping: while the user types an answer the live line, which is rewritten each second, leaves the line alone.
func TestHeldWhileTyping(t *testing.T) {
	var stderr bytes.Buffer
	now := time.Unix(0, 0)
	u := NewUI(&Streams{Err: &stderr, ErrTTY: true, Now: func() time.Time { return now }}, func(string) string { return "" })
	defer u.Close()
	u.Live("Starting", now)
	u.Warn("Stop? [s/d/c]")
	u.Hold()
	before := stderr.Len()
	u.Live("Ready", now)
	u.redraw()
	if got := stderr.String()[before:]; got != "" {
		t.Errorf("written while the user types: %q", got)
	}
	u.Release()
	if got := stderr.String()[before:]; !strings.Contains(got, "Ready") {
		t.Errorf("afterwards: %q", got)
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
