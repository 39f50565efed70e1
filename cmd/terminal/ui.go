// Package terminal writes for people: notes and progress on stderr, tables, times and sizes, and foreign text that is harmless on a terminal.
package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
)

// UI writes notes and progress to stderr. On a terminal it rewrites one line with the elapsed time; elsewhere each change is a
// plain line. It is safe for concurrent use.
type UI struct {
	mu    sync.Mutex
	s     *Streams
	color bool
	width func() int

	text     string    // of the live line; "": none
	since    time.Time // start of its elapsed time
	drawn    bool
	midLine  bool // the output's last line, on the same terminal or file as the notes, has no end yet
	held     bool // the user types
	plain    string
	stopTick chan struct{}

	step                 string // the current transfer
	stepSince, stepShown time.Time
	transferShown        time.Time // the last time for any transfer
}

// Color is the number of a colour in escape sequences.
type Color string

// Colours of words.
const (
	Red    Color = "31"
	Bold   Color = "1"
	dim    Color = "2"
	green  Color = "32"
	yellow Color = "33"
)

// NewUI makes the UI of these streams, in colour on a terminal that the environment does not exclude.
func NewUI(s *Streams, getenv func(string) string) *UI {
	u := &UI{s: s, color: s.ErrTTY && colored(getenv), width: func() int { return 80 }}
	if f, ok := s.Err.(*os.File); ok {
		u.width = func() int {
			w, _, err := term.GetSize(int(f.Fd()))
			if err != nil || w < 20 {
				return 80
			}
			return w
		}
	}
	return u
}

// colored reports whether the environment does not exclude colours on a terminal.
func colored(getenv func(string) string) bool {
	return getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}

// painted is a word in a colour.
func painted(c Color, s string) string { return "\x1b[" + string(c) + "m" + s + "\x1b[0m" }

// Paint colours a word if colours are enabled.
func (u *UI) Paint(c Color, s string) Painted {
	s = Clean(s)
	if !u.color {
		return Painted(s)
	}
	return Painted(painted(c, s))
}

// Note prints a line that stays.
func (u *UI) Note(format string, args ...any) {
	if u.s.Quiet {
		return
	}
	u.Line(fmt.Sprintf(format, cleanArgs(args)...))
}

// Warn prints a line that stays, also with --quiet.
func (u *UI) Warn(format string, args ...any) { u.Line(fmt.Sprintf(format, cleanArgs(args)...)) }

// Line prints a line that stays: the caller cleans it. On a terminal a long one is broken between words.
func (u *UI) Line(s string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	u.newLine()
	fmt.Fprintln(u.s.Err, fold(s, columnsOf(u.s.Err)))
	u.draw()
}

// newLine ends an unterminated line of output.
func (u *UI) newLine() {
	if u.midLine {
		fmt.Fprintln(u.s.Err)
		u.midLine = false
	}
}

// Live shows what rayctl waits for, and since when.
func (u *UI) Live(text string, since time.Time) {
	if u.s.Quiet {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.s.ErrTTY {
		if text != u.plain {
			u.plain = text
			u.newLine()
			fmt.Fprintln(u.s.Err, Clean(text))
		}
		return
	}
	u.erase()
	u.text, u.since = text, since
	u.draw()
	if u.stopTick == nil {
		u.stopTick = make(chan struct{})
		go u.tick(u.stopTick)
	}
}

// Transfer shows the progress of a long step, but not of a short one. Off a terminal it prints at most one line in ten seconds of a step, or of the
// details of one.
func (u *UI) Transfer(p launcher.Progress) {
	u.mu.Lock()
	now := u.s.Now()
	switch {
	case p.Detail && u.step != "": // of the same work, which has its time
		u.step, u.stepShown = p.Text, u.transferShown
	case u.step != p.Text:
		u.step, u.stepSince, u.stepShown = p.Text, now, time.Time{}
	}
	since := u.stepSince
	pause := 10 * time.Second
	if u.s.ErrTTY {
		pause = 100 * time.Millisecond
	}
	quick := (p.Done > 0 || p.Total > 0) && now.Sub(since) < time.Second
	again := now.Sub(u.stepShown) < pause
	if !quick && !again {
		u.stepShown, u.transferShown = now, now
	}
	u.mu.Unlock()
	if quick || again {
		return
	}
	text := p.Text
	switch {
	case p.Total > 0:
		text += fmt.Sprintf(": %s of %s", Size(p.Done), Size(p.Total))
	case p.Done > 0:
		text += ": " + Size(p.Done)
	}
	u.Live(text, since)
}

// Clear removes the live line.
func (u *UI) Clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	u.text = ""
	if u.stopTick != nil {
		close(u.stopTick)
		u.stopTick = nil
	}
}

// Hold leaves the line to what the user types, which the live line would erase each second; Release gives it back.
func (u *UI) Hold() { u.hold(true) }

// Release ends Hold.
func (u *UI) Release() { u.hold(false) }

func (u *UI) hold(held bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	u.held = held
	u.draw()
}

// Close ends the live line.
func (u *UI) Close() { u.Clear() }

func (u *UI) tick(stop <-chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			u.redraw()
		}
	}
}

func (u *UI) redraw() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.erase()
	u.draw()
}

func (u *UI) erase() {
	if u.drawn {
		fmt.Fprint(u.s.Err, "\r\x1b[K")
		u.drawn = false
	}
}

// echoed is what a terminal shows for Ctrl-C: with it a live line still takes one row, which is all that is erased.
const echoed = "^C"

func (u *UI) draw() {
	if u.text == "" || u.midLine || u.held {
		return
	}
	words := OneLine(u.text)
	if took := u.s.Now().Sub(u.since).Truncate(time.Second); took > 0 {
		words += " (" + launcher.Human(took.Seconds()) + ")"
	}
	line := []rune(words)
	if w := u.width() - 1 - len(echoed); len(line) > w {
		line = append(line[:w-1], '…')
	}
	fmt.Fprint(u.s.Err, u.Paint(dim, string(line)))
	u.drawn = true
}

// Output wraps stdout for the driver's output: the live line is never in the middle of it, and where stdout and stderr are the same terminal, file or
// pipe, notes begin on a line of their own.
func (u *UI) Output() io.Writer {
	if u.s.OutTTY && u.s.ErrTTY || sameFile(u.s.Out, u.s.Err) {
		return u.between(u.s.Out)
	}
	return u.s.Out
}

// sameFile reports whether two streams are one, as with 2>&1.
func sameFile(out, err io.Writer) bool {
	if s, ok := out.(*driverio.Stdout); ok {
		out = s.Writer()
	}
	o, ok1 := out.(*os.File)
	e, ok2 := err.(*os.File)
	if !ok1 || !ok2 {
		return false
	}
	oInfo, err1 := o.Stat()
	eInfo, err2 := e.Stat()
	return err1 == nil && err2 == nil && os.SameFile(oInfo, eInfo)
}

// ErrOutput is Output for a command whose stdout has another answer: the driver's output goes to stderr.
func (u *UI) ErrOutput() io.Writer { return u.between(u.s.Err) }

// between writes between notes, each of which begins on a line of its own.
func (u *UI) between(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.erase()
		n, err := w.Write(p)
		if n > 0 {
			u.midLine = p[n-1] != '\n'
		}
		return n, err
	})
}

// LogWriter writes the lines of -v.
func (u *UI) LogWriter() io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		u.Line(Clean(strings.TrimSuffix(string(p), "\n")))
		return len(p), nil
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
