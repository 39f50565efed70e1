// Package tail keeps the end of a program's output.
package tail

import (
	"strings"
	"sync"
)

// Tail keeps the last bytes that are written to it. It may be used by several goroutines.
type Tail struct {
	Size int // bytes to keep; 0: 8 KiB, enough for the messages of ssh and Slurm's commands

	mu      sync.Mutex
	text    []byte
	written int64
}

const defaultSize = 8 << 10

func (t *Tail) Write(p []byte) (int, error) {
	size := t.Size
	if size == 0 {
		size = defaultSize
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.written += int64(len(p))
	t.text = append(t.text, p[max(0, len(p)-size):]...)
	t.text = t.text[max(0, len(t.text)-size):]
	return len(p), nil
}

// Written is how many bytes were written, also those that were not kept.
func (t *Tail) Written() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.written
}

// LastLine is the last line that is not blank.
func (t *Tail) LastLine() string { return LastLine(t.String()) }

// LastLine is the last line of a text that is not blank.
func LastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// String is all that was kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
