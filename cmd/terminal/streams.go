package terminal

import (
	"io"
	"time"
)

// Streams are a process's streams, and what decides how they are written.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// InTTY, OutTTY and ErrTTY are true if the stream is a terminal.
	InTTY, OutTTY, ErrTTY bool
	// Quiet leaves out notes and progress.
	Quiet bool
	Now   func() time.Time
}
