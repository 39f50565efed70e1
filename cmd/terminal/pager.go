package terminal

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"

	"golang.org/x/term"
)

// ErrPagerLeft is the error of output for a pager that the user has left.
var ErrPagerLeft = errors.New("the user has left the pager")

// Pager takes output for a person. What has room on the screen is written as it is, and longer output goes through the pager, as with git and gh. From the first
// byte until Close the notes of the UI wait: they would be written over the pager's screen.
type Pager struct {
	ui            *UI
	out           io.Writer // for what needs no pager
	screen        *os.File
	command       string
	environ       []string
	rows, columns int

	begin []byte // what may have room on the screen
	shown *reader
}

// pagerCommand is the shell command of the pager: $PAGER, else less. "" if there is to be none: a program reads, or cannot answer it.
func pagerCommand(getenv func(string) string) string {
	if getenv("CI") != "" || getenv("TERM") == "dumb" {
		return ""
	}
	switch own := strings.TrimSpace(getenv("PAGER")); own {
	case "":
	case "cat":
		return ""
	default:
		return own
	}
	less, _ := exec.LookPath("less")
	return less
}

// Page is a Pager for stdout; nil where output needs none.
func (u *UI) Page(stdout io.Writer, getenv func(string) string) *Pager {
	screen, command := fileOf(stdout), pagerCommand(getenv)
	if screen == nil || !u.s.OutTTY || command == "" {
		return nil
	}
	columns, rows, err := term.GetSize(int(screen.Fd()))
	if err != nil || rows < 5 || columns < narrowest {
		return nil
	}
	p := &Pager{ui: u, out: u.Output(), screen: screen, command: command, environ: os.Environ(), rows: rows, columns: columns}
	if getenv("LESS") == "" {
		p.environ = append(p.environ, "LESS=FRX") // leave short output on the screen, show colours
	}
	return p
}

// Writer is the terminal, whose width output has.
func (p *Pager) Writer() io.Writer { return p.screen }

// Write never waits for the user.
func (p *Pager) Write(b []byte) (int, error) {
	if p.shown == nil {
		if len(p.begin) == 0 {
			p.ui.hold()
		}
		p.begin = append(p.begin, b...)
		if !p.tooLong() {
			return len(b), nil
		}
		shown, err := p.start()
		if err != nil {
			p.screen, p.rows = nil, 1<<30 // no pager then
			return len(b), nil
		}
		p.shown, b, p.begin = shown, p.begin, nil
	}
	return p.shown.Write(b)
}

// tooLong reports whether the screen has no room for the beginning and the shell's prompt.
func (p *Pager) tooLong() bool {
	rows := 1
	for line := range bytes.Lines(p.begin) {
		if rows += 1 + len(line)/(p.columns+1); rows > p.rows {
			return true
		}
	}
	return false
}

// Close waits until the user leaves the pager, and then shows the notes that waited.
func (p *Pager) Close() {
	if p.shown != nil {
		p.shown.wait()
	}
	p.ui.release(func() { _, _ = p.out.Write(p.begin) })
}

// Left reports whether the user left the pager before the end of the output.
func (p *Pager) Left() bool { return p.shown != nil && p.shown.left() }

// start starts the pager. Ctrl-C is for the pager until it ends: it would end rayctl and leave the pager behind.
func (p *Pager) start() (*reader, error) {
	cmd := exec.Command("sh", "-c", p.command) //nolint:noctx // the user ends it
	cmd.Stdout, cmd.Stderr, cmd.Env = p.screen, p.ui.s.Err, p.environ
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	if err := cmd.Start(); err != nil {
		signal.Stop(interrupts)
		return nil, err
	}
	r := &reader{ended: make(chan struct{})}
	r.changed = sync.NewCond(&r.mu)
	go func() {
		defer close(r.ended)
		r.pass(in)
		_ = cmd.Wait() // how it ended is the user's business
		signal.Stop(interrupts)
	}()
	return r, nil
}

// most is how much output waits for the user. A source that is not read ends after a while.
const most = 64 << 20

// reader is a running pager, with the output that it has not taken yet.
type reader struct {
	mu      sync.Mutex
	changed *sync.Cond
	waiting []byte
	closed  bool
	gone    bool
	ended   chan struct{}
}

func (r *reader) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.waiting) > most && !r.gone {
		r.changed.Wait()
	}
	if r.gone {
		return 0, ErrPagerLeft
	}
	r.waiting = append(r.waiting, b...)
	r.changed.Broadcast()
	return len(b), nil
}

// pass passes the output on until its end, or until the pager does not take it any more.
func (r *reader) pass(in io.WriteCloser) {
	defer in.Close()
	lines := overwritten{w: in}
	for {
		r.mu.Lock()
		for len(r.waiting) == 0 && !r.closed {
			r.changed.Wait()
		}
		part := r.waiting
		r.waiting = nil
		r.changed.Broadcast()
		r.mu.Unlock()
		err := lines.write(part)
		if err == nil && part == nil {
			err = lines.end()
		}
		if err != nil || part == nil {
			r.mu.Lock()
			r.gone = err != nil
			r.changed.Broadcast()
			r.mu.Unlock()
			return
		}
	}
}

func (r *reader) wait() {
	r.mu.Lock()
	r.closed = true
	r.changed.Broadcast()
	r.mu.Unlock()
	<-r.ended
}

func (r *reader) left() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.gone
}

// overwritten leaves out what a terminal would overwrite: of a progress bar a pager would show every state in one line.
type overwritten struct {
	w    io.Writer
	line []byte // that has not ended
}

// longestLine is how much of a line waits for its end.
const longestLine = 1 << 16

func (o *overwritten) write(b []byte) error {
	for part := range bytes.Lines(b) {
		o.line = append(o.line, part...)
		if part[len(part)-1] != '\n' && len(o.line) < longestLine {
			continue
		}
		if err := o.end(); err != nil {
			return err
		}
	}
	return nil
}

func (o *overwritten) end() error {
	begin := bytes.LastIndexByte(bytes.TrimRight(o.line, "\r\n"), '\r') + 1
	_, err := o.w.Write(o.line[begin:])
	o.line = nil
	return err
}
