package remote

import (
	"strings"
	"sync"
)

// Tail keeps the end of a command's output.
type Tail struct {
	mu   sync.Mutex
	text []byte
}

// tailSize is enough for the messages of ssh and Slurm's commands.
const tailSize = 8 << 10

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-tailSize):]
	return len(p), nil
}

// LastLine is the last line that is not blank.
func (t *Tail) LastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// String is all that was kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.text)
}
