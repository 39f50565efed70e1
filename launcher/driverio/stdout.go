// Package driverio is what the launchers do with a driver's output: the lines of Ray are taken out of it, and it is written so that a full disk fails nothing.
package driverio

import (
	"io"
	"sync"
)

// Stdout accepts every write and never fails, so that a full disk or a closed pipe is not treated as a failure of the source. After the first error it
// writes nothing more: the stream then has a prefix of the output, each byte once.
type Stdout struct {
	w      io.Writer
	failed func(error)

	mu  sync.Mutex
	err error
}

// NewStdout writes to w. failed, if not nil, is called once with w's first error, from the goroutine that wrote.
func NewStdout(w io.Writer, failed func(error)) *Stdout { return &Stdout{w: w, failed: failed} }

// Write always succeeds.
func (s *Stdout) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || len(p) == 0 {
		return len(p), nil
	}
	n, err := s.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if s.err = err; err != nil && s.failed != nil {
		s.failed(err)
	}
	return len(p), nil
}

// Err is the first write error, nil if everything was written.
func (s *Stdout) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Writer is the writer given to NewStdout.
func (s *Stdout) Writer() io.Writer { return s.w }
