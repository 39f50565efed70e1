package app

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// Questions ask a person on a terminal.
type Questions struct {
	lines *bufio.Scanner
	out   io.Writer
}

// Questions returns a Questions that asks on stderr and reads the answers from stdin; stdout is for the result of the command.
func (a *App) Questions() *Questions { return &Questions{bufio.NewScanner(a.In), a.Err} }

// Ask prints a question and returns the line that answers it, without the blanks around it, and whether there was a line.
func (q *Questions) Ask(question string) (answer string, more bool) {
	fmt.Fprint(q.out, question)
	if more = q.lines.Scan(); !more {
		fmt.Fprintln(q.out) // Ctrl-D leaves the cursor behind the question
	}
	return strings.TrimSpace(q.lines.Text()), more
}

// Err is why the last question got no answer; nil at the end of the input.
func (q *Questions) Err() error { return q.lines.Err() }
