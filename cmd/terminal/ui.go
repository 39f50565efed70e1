// Package terminal writes for people: notes and progress on stderr, tables, times and sizes, and foreign text that is harmless on a terminal.
package terminal

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/rayctl/rayctl/launcher"
	"github.com/rayctl/rayctl/launcher/driverio"
)

// UI writes notes and progress to stderr. On a terminal it rewrites its last lines: what it waits for, with the elapsed time and a row for each part, or a question.
// Elsewhere each change is a plain line. It is safe for concurrent use.
type UI struct {
	mu    sync.Mutex
	s     *Streams
	color bool
	width func() int

	outColor bool

	text     string    // of the live line; "": none
	since    time.Time // start of its elapsed time
	rows     []string  // below the live line
	drawn    int       // number of lines that are drawn
	midLine  bool      // the output's last line, on the same terminal or file as the notes, has no end yet
	question string    // the last line instead of the live one; "": none
	pending  []byte    // output without a line end, which waits for the answer
	waiting  *outlet   // what pending is for
	plain    string
	stopTick chan struct{}

	paging bool     // a Pager has the terminal
	held   []string // lines that wait for its end

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
	u := &UI{s: s, color: s.ErrTTY && colored(getenv), outColor: s.OutTTY && colored(getenv), width: func() int { return 80 }}
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

// ColorsOutput reports whether what is printed to stdout may have colours.
func (u *UI) ColorsOutput() bool { return u.outColor }

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
	if u.paging && u.s.ErrTTY {
		u.held = append(u.held, s)
		return
	}
	u.line(s)
}

func (u *UI) line(s string) {
	fmt.Fprint(u.s.Err, u.erase()+u.newLine()+fold(s, columnsOf(u.s.Err))+"\n"+u.draw())
}

// hold lets lines wait, and draws nothing, until release.
func (u *UI) hold() {
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprint(u.s.Err, u.erase())
	u.paging = true
}

// release calls write, and then shows the lines that waited.
func (u *UI) release(write func()) {
	u.mu.Lock()
	held := u.held
	u.paging, u.held = false, nil
	u.mu.Unlock()
	write()
	for _, s := range held {
		u.Line(s)
	}
}

// newLine ends an unterminated line of output.
func (u *UI) newLine() string {
	if !u.midLine {
		return ""
	}
	u.midLine = false
	return "\n"
}

// Live shows what rayctl waits for, and since when; on a terminal also a row for each part of it.
func (u *UI) Live(text string, since time.Time, rows ...string) {
	if u.s.Quiet {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.s.ErrTTY {
		if text != u.plain {
			u.plain = text
			fmt.Fprint(u.s.Err, u.newLine()+Clean(text)+"\n")
		}
		return
	}
	erased := u.erase()
	u.text, u.since, u.rows = text, since, rows
	fmt.Fprint(u.s.Err, erased+u.draw())
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
	erased := u.erase()
	u.text, u.rows = "", nil
	fmt.Fprint(u.s.Err, erased+u.draw())
	if u.stopTick != nil {
		close(u.stopTick)
		u.stopTick = nil
	}
}

// Ask holds a question in the last line, in which the user types, while output and notes go on above it. Of the output only whole lines are shown meanwhile.
func (u *UI) Ask(question string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	begin := u.erase() + u.newLine()
	u.question = question
	fmt.Fprint(u.s.Err, begin+u.draw())
}

// Answered ends the question. If the user has ended its line, it stays above, and what is erased is an empty line.
func (u *UI) Answered() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.question == "" {
		return
	}
	fmt.Fprint(u.s.Err, u.erase())
	u.question = ""
	u.flush()
	fmt.Fprint(u.s.Err, u.draw())
}

// flush shows the output that waits for its line end.
func (u *UI) flush() {
	if len(u.pending) > 0 {
		_, _ = u.waiting.w.Write(u.pending) // a terminal; the next write reports its error
		u.midLine = true
	}
	u.pending, u.waiting = nil, nil
}

// Close ends the question and the live line.
func (u *UI) Close() {
	u.Answered()
	u.Clear()
}

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

// redraw shows the elapsed time. It leaves a question alone, in whose line the user types.
func (u *UI) redraw() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.question == "" {
		fmt.Fprint(u.s.Err, u.erase()+u.draw())
	}
}

// erase is what removes the drawn lines from the terminal; the cursor is in the last one.
func (u *UI) erase() string {
	if u.drawn == 0 {
		return ""
	}
	lines := "\r\x1b[K" + strings.Repeat("\x1b[A\x1b[K", u.drawn-1)
	u.drawn = 0
	return lines
}

// echoed is what a terminal shows for Ctrl-C: with it a live line still takes one row, which is all that is erased.
const echoed = "^C"

// draw is what draws the last lines.
func (u *UI) draw() string {
	switch {
	case u.midLine, u.paging:
		return ""
	case u.question != "":
		u.drawn = 1
		return string(u.Paint(Bold, u.fitting(u.question))) + " "
	case u.text == "":
		return ""
	}
	words := OneLine(u.text)
	if took := u.s.Now().Sub(u.since).Truncate(time.Second); took > 0 {
		words += " (" + launcher.Human(took.Seconds()) + ")"
	}
	lines := []string{string(u.Paint(dim, u.fitting(words)))}
	for _, row := range u.rows {
		lines = append(lines, string(u.Paint(dim, u.fitting(row))))
	}
	u.drawn = len(lines)
	return strings.Join(lines, "\n")
}

// fitting is a text as one row of the terminal has room for it.
func (u *UI) fitting(text string) string {
	room := u.width() - 1 - len(echoed)
	if widthOf(text) <= room {
		return text
	}
	taken := 0
	for i, r := range text {
		if taken += columnsOfRune(r); taken >= room {
			return text[:i] + "…"
		}
	}
	return text
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
func (u *UI) between(w io.Writer) io.Writer { return &outlet{u, w} }

// outlet is a stream on which the driver's output and rayctl's notes meet.
type outlet struct {
	u *UI
	w io.Writer
}

func (o *outlet) Write(p []byte) (int, error) {
	u := o.u
	u.mu.Lock()
	defer u.mu.Unlock()
	fmt.Fprint(u.s.Err, u.erase())
	if u.question != "" {
		return o.above(p)
	}
	n, err := o.w.Write(p)
	if n > 0 {
		u.midLine = p[n-1] != '\n'
	}
	return n, err
}

// longestPending is how much output without a line end waits for the answer to a question.
const longestPending = 1 << 20

// above writes output above the question: its whole lines.
func (o *outlet) above(p []byte) (int, error) {
	u := o.u
	if u.waiting != nil && u.waiting != o {
		u.flush()
	}
	text := slices.Concat(u.pending, p)
	whole := bytes.LastIndexByte(text, '\n') + 1
	if len(text)-whole > longestPending {
		whole = len(text)
	}
	u.pending, u.waiting = text[whole:], o
	var err error
	if whole > 0 {
		_, err = o.w.Write(text[:whole])
		u.midLine = text[whole-1] != '\n'
	}
	fmt.Fprint(u.s.Err, u.draw())
	return len(p), err
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
