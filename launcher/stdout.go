package launcher

import (
	"io"
	"sync"
)

// Stdout takes everything that is written to it and never fails, so that a full disk or a closed pipe behind it is not taken for a failure of what
// is shown. After the first error nothing is written any more: whatever reached the stream is a beginning of the output, each byte once.
type Stdout struct {
	w      io.Writer
	failed func(error)

	mu  sync.Mutex
	err error
}

// NewStdout writes to w. failed, if not nil, is called once, with w's first error, from the goroutine that wrote.
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

// Err is the error after which nothing was written any more, nil if everything was.
func (s *Stdout) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Writer is what was given to NewStdout.
func (s *Stdout) Writer() io.Writer { return s.w }
