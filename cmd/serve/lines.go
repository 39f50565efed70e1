package serve

import (
	"bytes"
	"fmt"
	"io"
	"sync"
)

// lineWriter writes whole lines, each behind a name, so that lines of several logs can follow one another.
type lineWriter struct {
	w        io.Writer
	prefix   string
	leaveOut func(line []byte) bool // nil: no line
	rest     []byte
}

// lines makes a writer; without several logs it changes nothing.
func lines(w io.Writer, name string, several bool) *lineWriter {
	if !several {
		return &lineWriter{w: w}
	}
	return &lineWriter{w: w, prefix: fmt.Sprintf("[%s] ", name)}
}

// Write implements io.Writer.
func (l *lineWriter) Write(p []byte) (int, error) {
	if l.prefix == "" && l.leaveOut == nil {
		return l.w.Write(p)
	}
	var out []byte
	l.rest = append(l.rest, p...)
	for {
		line, after, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			break
		}
		if l.leaveOut == nil || !l.leaveOut(line) {
			out = append(append(append(out, l.prefix...), line...), '\n')
		}
		l.rest = after
	}
	if len(out) > 0 {
		if _, err := l.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// flush writes a last line without an end.
func (l *lineWriter) flush() error {
	if len(l.rest) == 0 || l.leaveOut != nil && l.leaveOut(l.rest) {
		return nil
	}
	_, err := l.w.Write(append(append([]byte(l.prefix), l.rest...), '\n'))
	l.rest = nil
	return err
}

// oneWriter serializes writers.
type oneWriter struct {
	mutex sync.Mutex
	w     io.Writer
}

// Write implements io.Writer.
func (o *oneWriter) Write(p []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.w.Write(p)
}
