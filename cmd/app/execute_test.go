package app

import (
	"bytes"
	"testing"
	"time"

	"github.com/rayctl/rayctl/cmd/terminal"
)

// TestForeignError: an error's text never reaches the terminal as an escape sequence.
func TestForeignError(t *testing.T) {
	const hostile = "a\x1b[31mb\x1b]0;title\x07c\rd\u009b2Jf\u202eg\xffi"
	var stderr bytes.Buffer
	a := &App{Streams: terminal.Streams{Err: &stderr, Now: time.Now}, Getenv: func(string) string { return "" }}
	a.UI = terminal.NewUI(&a.Streams, a.Getenv)
	a.report(UsageError(hostile, "%s", hostile))
	if text := stderr.String(); text == "" || text != terminal.Clean(text) {
		t.Errorf("stderr: %q", text)
	}
}
