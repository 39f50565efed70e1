package terminal

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"

	"golang.org/x/term"
)

// Pager collects a text for a person. Close shows it: through the pager if it is longer than the screen, as git does with its help.
type Pager struct {
	bytes.Buffer

	screen        *os.File
	command       string // of the shell
	environ       []string
	rows, columns int
}

// NewPager is a Pager for stdout; nil where the text is to be written as it is: a program reads it, or nobody can answer a pager.
func NewPager(stdout io.Writer, isTerminal bool, getenv func(string) string) *Pager {
	screen, command := fileOf(stdout), pagerCommand(getenv)
	if screen == nil || !isTerminal || command == "" {
		return nil
	}
	columns, rows, err := term.GetSize(int(screen.Fd()))
	if err != nil || rows < 5 || columns < narrowest {
		return nil
	}
	p := &Pager{screen: screen, command: command, environ: os.Environ(), rows: rows, columns: columns}
	if getenv("LESS") == "" {
		p.environ = append(p.environ, "LESS=FRX") // leave short output on the screen, show colours
	}
	return p
}

// pagerCommand is the shell command of the pager: $PAGER, else less; "": none.
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

// Writer is the terminal, whose width the text has.
func (p *Pager) Writer() io.Writer { return p.screen }

// Close shows the text and waits until the user leaves the pager. Ctrl-C is for the pager: it would end rayctl and leave the pager behind.
func (p *Pager) Close() error {
	if p.fits() {
		_, err := p.WriteTo(p.screen)
		return err
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	cmd := exec.Command("sh", "-c", p.command) //nolint:noctx // the user ends it
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = bytes.NewReader(p.Bytes()), p.screen, os.Stderr, p.environ
	if err := cmd.Start(); err != nil {
		_, err := p.WriteTo(p.screen)
		return err
	}
	_ = cmd.Wait() // how the user leaves it is no error
	return nil
}

// fits reports whether the screen has room for the text and the shell's prompt.
func (p *Pager) fits() bool {
	rows := 1
	for line := range bytes.Lines(p.Bytes()) {
		if rows += 1 + len(line)/(p.columns+1); rows > p.rows {
			return false
		}
	}
	return true
}
